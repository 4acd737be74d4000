"""Files beside the weights in which training scripts keep their options.

They are JSON, YAML, TOML, or the result of ``torch.save(args, "args.pt")``, and are read as plain
data. YAML goes through PyYAML's safe loader. Tags of Python are ignored; their node is read as the
mapping, list or text that it is.
"""

from __future__ import annotations

import re
import tomllib
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from .errors import CheckpointError, reason
from .reading import read_object
from .stand_ins import named_values
from .strict_json import read_json

MAX_JSON = 2**20  # bytes of one file
MAX_YAML = 2**17  # PyYAML reads some 100 kB a second
MAX_ALIASES = 20  # so that merged mappings cannot grow without end
MAX_NESTED = 20  # nested brackets: PyYAML's time grows with their square
MAX_DOTS = 500  # on a line: tomllib's time grows with the square of a key's parts
#: Names of such files without their extensions; ``{stem}`` is that of the weights file.
STEMS = (
    *("args", "hparams", "hyperparameters", "hyper_parameters", "params", "options", "opt"),
    *(
        "settings",
        "cfg",
        "conf",
        "flags",
        "arguments",
        "opts",
        "config",
        "configuration",
        "model_args",
        "model_config",
        "model_params",
    ),
    *("training_args", "train_args", "train_config", "training_config", ".hydra/config"),
    *("{stem}", "{stem}_config", "{stem}_args", "{stem}_hparams", "{stem}.args", "{stem}.config"),
)
ENDINGS = (".json", ".yaml", ".yml", ".toml", ".pt")
START = 64  # first bytes, enough to detect a list
MAIN = "config.json"  # read separately
#: Subfolders of a run with weights only: the options of the run are one folder up.
INNER = re.compile(
    r"(checkpoints?|weights|ckpts?|models?|snapshots?)([-_=]?\d+)?"
    r"|(global_?)?(step|epoch|iter|iteration)s?[-_=]?\d+",
    re.I,
)


def options_beside(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the options in the files beside a weights file, by file name.

    Returns:
        Content of each file, and a sentence about each one that cannot be read.
    """
    folders = [path.parent]
    if INNER.fullmatch(path.parent.name):
        folders.append(path.parent.parent)
    stem = path.name.split(".")[0]
    found: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for folder in folders:
        for form in STEMS:
            for ending in ENDINGS:
                file = folder / f"{form.format(stem=stem)}{ending}"
                if file.name == MAIN and folder == path.parent and form == "config":
                    continue
                name = str(file.relative_to(folder))
                if name in found or not _is_file(file) or _is_list(file):
                    continue
                if file.suffix == ".pt" and (form == "{stem}" or file.stat().st_size > MAX_JSON):
                    continue  # weights
                try:
                    held = read_options(file)
                except CheckpointError as error:
                    notes.append(f"{name} beside the weights was left out: {error}")
                    continue
                if isinstance(held, dict):
                    found[name] = held
    return found, notes


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_list(path: Path) -> bool:
    """Return True if a JSON file holds a list: a vocabulary, since options have names."""
    if path.suffix != ".json":
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(START).removeprefix(BOM_UTF8).lstrip().startswith(b"[")
    return False


def read_options(path: Path) -> Any:
    """Return the content of one file of options.

    Raises:
        CheckpointError: The file is too large, or its content does not match its extension.
    """
    if path.suffix == ".json":
        return read_json(path, MAX_JSON)
    if path.suffix == ".pt":
        held = named_values(read_object(path))
        return {} if any(isinstance(value, Tensor) for value in held.values()) else dict(held)
    if path.stat().st_size > MAX_YAML:
        raise CheckpointError(
            f"{path.name} has {path.stat().st_size:,} bytes, and {MAX_YAML:,} are the most."
        )
    try:
        text = path.read_text("utf-8-sig")
        return _of_toml(text) if path.suffix == ".toml" else _of_yaml(text)
    except Exception as error:  # a damaged file can raise nearly anything
        raise CheckpointError(
            f"{path.name} cannot be read ({reason(error)}). Mend or remove it."
        ) from error


def _of_toml(text: str) -> Any:
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        raise ValueError(f"a line has more than {MAX_DOTS} dots")
    return tomllib.loads(text)


def _of_yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]  # of transformers, and needed seldom

    if _depth(text) > MAX_NESTED:
        raise ValueError(f"its brackets are nested deeper than {MAX_NESTED} levels")

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        """Safe loader that also reads nodes with unknown tags."""

    def plain(loader: Any, suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    for prefix in ("tag:yaml.org,2002:python/", "!"):
        Plain.add_multi_constructor(prefix, plain)
    aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Plain))
    if aliases > MAX_ALIASES:
        raise ValueError(f"it refers back {aliases} times, and {MAX_ALIASES} are the most")
    return yaml.load(text, Plain)


def _depth(text: str) -> int:
    """Return the largest depth of nested brackets in a text."""
    deep = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        deep = deep + 1 if bracket in "[{" else max(0, deep - 1)
        deepest = max(deepest, deep)
    return deepest
