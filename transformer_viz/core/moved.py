"""Modules and names that moved: the old ones still open, with a warning, for one minor release.

The table holds what could be imported in 0.1.0 apart from the app itself; four old names are
folders today and not in it. Nothing is imported before an old name is asked for.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
#: The old name and the new one, both below the package.
MOVED = {
    "arguments": "cli.arguments",
    "checkpoints.annotated": "checkpoints.layouts.annotated",
    "checkpoints.blocks": "checkpoints.common.parameter_counts",
    "checkpoints.calibration": "checkpoints.common.calibration",
    "checkpoints.customs": "checkpoints.common.word_checks",
    "checkpoints.dictionaries": "checkpoints.vocabularies.dictionaries",
    "checkpoints.errors": "checkpoints.files.errors",
    "checkpoints.fairseq": "checkpoints.layouts.fairseq",
    "checkpoints.filling": "checkpoints.common.fill_weights",
    "checkpoints.found": "checkpoints.common.candidate",
    "checkpoints.gpt": "checkpoints.layouts.gpt",
    "checkpoints.gpt2": "checkpoints.layouts.gpt2",
    "checkpoints.hf_beside": "checkpoints.hugging_face.side_files",
    "checkpoints.hf_calls": "checkpoints.hugging_face.calls",
    "checkpoints.hf_config": "checkpoints.hugging_face.config",
    "checkpoints.hf_ids": "checkpoints.hugging_face.special_tokens",
    "checkpoints.hf_images": "checkpoints.hugging_face.image_processor",
    "checkpoints.hf_library": "checkpoints.hugging_face.library",
    "checkpoints.hf_model": "checkpoints.hugging_face.build",
    "checkpoints.hf_trial": "checkpoints.hugging_face.trial_run",
    "checkpoints.hf_weights": "checkpoints.hugging_face.weights",
    "checkpoints.hf_words": "checkpoints.hugging_face.config_words",
    "checkpoints.jadore": "checkpoints.layouts.jadore",
    "checkpoints.jadore_2018": "checkpoints.layouts.jadore_2018",
    "checkpoints.jadore_2019": "checkpoints.layouts.jadore_2019",
    "checkpoints.jadore_2020": "checkpoints.layouts.jadore_2020",
    "checkpoints.labml": "checkpoints.layouts.labml",
    "checkpoints.mingpt": "checkpoints.layouts.mingpt",
    "checkpoints.model": "checkpoints.common.model",
    "checkpoints.module": "checkpoints.layouts.module",
    "checkpoints.nanogpt": "checkpoints.layouts.nanogpt",
    "checkpoints.native": "checkpoints.common.native",
    "checkpoints.opening": "checkpoints.loader",
    "checkpoints.opennmt": "checkpoints.layouts.opennmt",
    "checkpoints.pickles": "checkpoints.files.pickles",
    "checkpoints.plain_pickle": "checkpoints.files.plain_pickle",
    "checkpoints.provenance": "checkpoints.common.provenance",
    "checkpoints.reading": "checkpoints.files.reading",
    "checkpoints.reference": "checkpoints.common.build_reference",
    "checkpoints.renaming": "checkpoints.common.rename_keys",
    "checkpoints.sharded": "checkpoints.files.sharded",
    "checkpoints.shelf": "checkpoints.common.bundled",
    "checkpoints.sniffing": "checkpoints.files.sniffing",
    "checkpoints.strict_json": "checkpoints.files.strict_json",
    "checkpoints.timm": "checkpoints.layouts.timm",
    "checkpoints.torch_core": "checkpoints.layouts.torch_core",
    "checkpoints.torch_tutorial": "checkpoints.layouts.torch_tutorial",
    "checkpoints.unpacking": "checkpoints.files.unpacking",
    "checkpoints.unwrapping": "checkpoints.files.unwrapping",
    "checkpoints.vision": "checkpoints.layouts.vision_transformer",
    "checkpoints.zips": "checkpoints.files.zips",
    "colours": "core.palette",
    "components.files": "components.bundle",
    "components.inside": "components.walkthrough.data",
    "components.inside_panels": "components.walkthrough.panels",
    "components.inside_sum": "components.walkthrough.sum_sheet",
    "components.inside_symbols": "components.walkthrough.symbols",
    "components.inside_words": "components.walkthrough.texts",
    "components.page": "components.standalone_page",
    "components.spoken": "components.js_texts",
    "decode": "inference.generation",
    "decoding": "inference.search",
    "decoding_record": "inference.search_recorder",
    "decoding_steps": "core.search_tree",
    "experiments": "inference.experiments",
    "experiments.beginnings": "inference.experiments.initial_gradients",
    "experiments.leak": "inference.experiments.mask_leak",
    "experiments.position_wise": "inference.experiments.position_wise",
    "experiments.shared_keys": "inference.experiments.shared_keys",
    "export": "views.numbers",
    "hugging_face_text": "preprocessing.hugging_face",
    "images": "preprocessing.images",
    "inputs": "inference.token_ids",
    "inside": "walkthrough",
    "inside.arrays": "walkthrough.arrays",
    "inside.calls": "walkthrough.module_calls",
    "inside.chain": "walkthrough.chain",
    "inside.head": "walkthrough.attention_stages",
    "inside.layer": "walkthrough.layer_run",
    "inside.norms": "walkthrough.norm_stages",
    "inside.opened": "walkthrough.opened_number",
    "inside.opening": "walkthrough.open_number",
    "inside.others": "walkthrough.foreign_models",
    "inside.place": "walkthrough.check_site",
    "inside.rows": "walkthrough.softmax_stages",
    "inside.seam": "walkthrough.seam",
    "inside.start": "walkthrough.embedding_stages",
    "inside.sums": "walkthrough.sum_terms",
    "insides": "core.stages",
    "inspection": "inference.inspection",
    "interventions": "core.interventions",
    "languages": "i18n",
    "lessons.finding": "lessons.find_spot",
    "lessons.marked": "lessons.term_markup",
    "lessons.path": "lessons.station_list",
    "lessons.records": "lessons.lesson_types",
    "lessons.s01_tokens": "lessons.stations.s01_tokens",
    "lessons.s02_looking": "lessons.stations.s02_looking",
    "lessons.s03_query_key_value": "lessons.stations.s03_query_key_value",
    "lessons.s04_temperature": "lessons.stations.s04_temperature",
    "lessons.s05_heads": "lessons.stations.s05_heads",
    "lessons.s06_order": "lessons.stations.s06_order",
    "lessons.s07_norms": "lessons.stations.s07_norms",
    "lessons.s08_masks": "lessons.stations.s08_masks",
    "lessons.s09_crossing": "lessons.stations.s09_crossing",
    "lessons.s10_limits": "lessons.stations.s10_limits",
    "lessons.words": "lessons.number_format",
    "metrics.alike": "metrics.residual.similarity",
    "metrics.batches": "metrics.residual.batch_norm",
    "metrics.candidates": "metrics.output.top_k",
    "metrics.cells": "metrics.attention.map_cells",
    "metrics.compare": "metrics.output.run_changes",
    "metrics.difference": "metrics.attention.map_difference",
    "metrics.dots": "metrics.attention.score_variance",
    "metrics.heads": "metrics.attention.head_statistics",
    "metrics.held": "metrics.output.surprisal",
    "metrics.norm_names": "metrics.residual.norm_labels",
    "metrics.norms": "metrics.residual.norm_statistics",
    "metrics.outstanding": "metrics.residual.outliers",
    "metrics.patches": "metrics.attention.image_patches",
    "metrics.qk": "metrics.attention.qk_steps",
    "metrics.reach": "metrics.attention.distance_profile",
    "metrics.shared": "metrics.attention.tied_query_key",
    "metrics.shifts": "metrics.positions.shift_errors",
    "metrics.sizes": "metrics.attention.parameter_counts",
    "metrics.stream": "metrics.residual.residual_stream",
    "metrics.tiles": "metrics.attention.thumbnails",
    "metrics.words": "metrics.attention.word_merging",
    "model.norms": "model.normalization",
    "model.positions": "model.positional_encoding",
    "outcome": "inference.outputs",
    "records": "core.trace",
    "sites": "core.sites",
    "sources": "inference.model_inputs",
    "storage": "core.trace_file",
    "tables": "inference.capture_to_numpy",
    "terminal": "cli.terminal",
    "text": "preprocessing.tokenizers",
    "tracing": "inference.tracing",
    "training.files": "training.write_file",
    "views.as_table": "views.charts.as_table",
    "views.atlas": "views.export.atlas",
    "views.book": "views.export.report_data",
    "views.candidates": "views.html.candidate_bars",
    "views.cells": "views.charts.matrix_axes",
    "views.curves": "views.charts.curves",
    "views.gain_bias": "views.charts.gain_bias",
    "views.head_cost": "views.charts.head_cost",
    "views.head_map": "views.charts.head_map",
    "views.lines": "views.export.lines",
    "views.norm_map": "views.charts.norm_map",
    "views.outcome": "views.html.probability_bars",
    "views.over_image": "views.charts.over_image",
    "views.paper_atlas": "views.paper.atlas",
    "views.paper_lines": "views.paper.lines",
    "views.paper_map": "views.paper.head_map",
    "views.parameters": "views.charts.parameters",
    "views.picture": "views.html.picture",
    "views.position_shift": "views.charts.position_shift",
    "views.position_similarity": "views.charts.position_similarity",
    "views.position_table": "views.charts.position_table",
    "views.position_waves": "views.charts.position_waves",
    "views.printed": "views.paper.figure_file",
    "views.report": "views.export.html_report",
    "views.stream_length": "views.charts.stream_length",
    "views.taken": "views.export.file_formats",
    "views.theme": "views.charts.theme",
    "views.training": "views.charts.training_curve",
    "views.vector_change": "views.html.vector_change",
    "views.wavelengths": "views.charts.wavelengths",
    "watch": "capture",
    "watch.calls": "capture.torch_calls",
    "watch.factors": "capture.score_scale",
    "watch.frames": "capture.module_names",
    "watch.fused": "capture.handlers.fused_attention",
    "watch.gathering": "capture.handlers.weighted_sum",
    "watch.layout": "capture.axes.layout",
    "watch.marks": "capture.roles",
    "watch.masks": "capture.handlers.masks",
    "watch.merge": "capture.merge_heads",
    "watch.mode": "capture.torch_function_mode",
    "watch.norms": "capture.handlers.normalization",
    "watch.numbering": "capture.site_numbering",
    "watch.places": "capture.attention_site",
    "watch.plan": "capture.edit_plan",
    "watch.positions": "capture.handlers.positions",
    "watch.probe": "capture.probe",
    "watch.products": "capture.handlers.matmul",
    "watch.proof": "capture.handlers.projection_check",
    "watch.run": "capture.records",
    "watch.softmax": "capture.handlers.softmax",
    "watch.statistics": "capture.statistics",
    "watch.stream": "capture.handlers.residual",
    "watch.waves": "capture.handlers.sinusoids",
    "words": "preprocessing.word_list",
}


class Moved(ModuleType):
    """An old module: it hands out what stands in the new one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # Python's own look-ups
            raise AttributeError(name)
        return getattr(import_module(new_name(self.__name__)), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(new_name(self.__name__)))

    def __call__(self, *words: Any, **more: Any) -> Any:
        """A view's old module bears the view's name: called, it is the view."""
        return self._view(*words, **more)

    @property
    def __signature__(self) -> inspect.Signature:
        """The view's own parameters, for help and for `inspect.signature`."""
        return inspect.signature(self._view)

    @property
    def _view(self) -> Callable[..., Any]:
        view: Callable[..., Any] = getattr(self, self.__name__.rpartition(".")[2])
        return view


class OldNames(MetaPathFinder, Loader):
    """Finds old modules; stands last, so that it is asked only for what nobody else has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}.") or short(fullname) not in MOVED:
            return None
        folder = any(old.startswith(f"{short(fullname)}.") for old in MOVED)
        return ModuleSpec(fullname, self, is_package=folder)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        new = new_name(module.__name__)
        warnings.warn(
            f"{module.__name__} is {new} now; the old name goes with the next minor release.",
            DeprecationWarning,
            stacklevel=2,
        )
        import_module(new)


def short(name: str) -> str:
    """A module's name below the package."""
    return name.partition(".")[2]


def new_name(name: str) -> str:
    """The full new name of a module that moved."""
    return f"{PACKAGE}.{MOVED[short(name)]}"


def install() -> None:
    """Let old names open from now on; a second call changes nothing."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module in which names changed (PEP 562).

    Args:
        module: the module's ``__name__``.
        names: of each old name the new one, which the module holds.
    """

    def fetch(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is {names[name]} now; the old name goes with the next minor release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return fetch
