"""Proposed names for an unknown file: for each weight the matching name of a layout.

Nothing here is applied by itself; the user confirms or corrects the table and gives it as names=.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from ...i18n import mark
from ..common.candidate import Candidate
from ..common.rename_keys import Table, pattern, uncut
from ..files.errors import CheckpointError
from ..layouts import (
    annotated,
    fairseq,
    gpt,
    jadore_2018,
    jadore_2020,
    labml,
    mingpt,
    nanogpt,
    opennmt,
    torch_core,
    torch_tutorial,
)
from ..layouts.own_models import reference, torch_language_model
from .weight_names import BUFFER, NAME
from .weight_roles import ALONE, Roles, find_roles

MOST_LAYERS = 500  # whose names are offered; a proposal comes from a process that is not trusted
#: Reasons for a proposed name, as shown to the user.
REASONS = {
    "name": mark("by its name"),
    "shape": mark("by its shape"),
    "order": mark("by order"),
    "buffer": mark("computed, left out"),
    "": mark("no proposal"),
}


class Target(Protocol):
    """Layout for which names can be proposed."""

    NAME: str
    NAMES: tuple[str, ...]


#: Layouts for which names are proposed, with their names and the reference Transformer's. If
#: several fit equally well, the first is proposed.
TARGETS: tuple[tuple[Target, Table], ...] = (
    (torch_tutorial, torch_tutorial.ROLES),
    (torch_language_model, torch_language_model.ROLES),
    (torch_core, torch_core.ROLES),
    (reference, reference.ROLES),
    (labml, labml.ROLES),
    (annotated, annotated.TABLE),
    (jadore_2020, jadore_2020.TABLE),
    (jadore_2018, jadore_2018.TABLE),
    (mingpt, mingpt.EARLY),
    (nanogpt, gpt.TABLE),
    (opennmt, opennmt.TABLE),
    (fairseq, fairseq.TABLE),
)
#: Optional parts of a layout.
OPTIONAL = re.compile(
    r".*\.bias|.*\.gate\..*|.*embedding\.norm\..*|.*positions.*|.*\.embedding\.table|.*\.places\..*"
    r"|(encoder|decoder)\.norm\..*"
)
STACKS = ("encoder", "decoder")
ANNOTATED = ("a_2", "b_2")  # of a norm with another computation
FUSED = re.compile(r"\.(query|key|value)\.")


@dataclass(frozen=True)
class NameRow:
    """Weight of a file and the name proposed for it.

    ``proposed`` is None without a proposal, or if the weight is ``computed`` (a causal mask) and
    can be left out. ``why`` is a key of `REASONS`.
    """

    key: str
    shape: tuple[int, ...]
    proposed: str | None
    why: str

    @property
    def computed(self) -> bool:
        """True if the tensor was computed, not learned, and can be left out."""
        return self.why == BUFFER


@dataclass(frozen=True)
class NameProposal:
    """Layout names for the weights of a file, to be confirmed by the user.

    Attributes:
        layout: Name of the layout.
        rows: One for each weight, in the order of the file.
        missing: Names that the layout needs and that no weight was proposed for.
        assumed: Options that no file states, with their assumed values; None without a sensible
            value. Empty unless requested.
    """

    layout: str
    rows: tuple[NameRow, ...]
    missing: tuple[str, ...]
    assumed: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> dict[str, str | None]:
        """Table for ``names=``; weights without a proposal are not in it."""
        known = (row for row in self.rows if row.proposed is not None or row.computed)
        return {row.key: row.proposed for row in known}

    @property
    def open(self) -> tuple[str, ...]:
        """Weights without a proposal."""
        return tuple(row.key for row in self.rows if not row.why)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "layout": self.layout,
            "rows": [[row.key, list(row.shape), row.proposed, row.why] for row in self.rows],
            "missing": list(self.missing),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> NameProposal:
        """Return the proposal that `to_dict` wrote."""
        rows = tuple(
            NameRow(
                str(key),
                tuple(int(n) for n in shape),
                None if name is None else str(name),
                why if why in REASONS else "",
            )
            for key, shape, name, why in given["rows"]
        )
        return cls(str(given["layout"]), rows, tuple(map(str, given["missing"])))


def layout_names(proposal: NameProposal) -> tuple[str, ...]:
    """Return every name that a weight of the file can have in the proposal's layout."""
    target, table = next(one for one in TARGETS if proposal.layout == one[0].NAME)
    known = {*proposal.missing, *(row.proposed for row in proposal.rows if row.proposed)}
    forms = [pattern(uncut(theirs)) for theirs, _ in table]
    depth = {int(m["n"]) for name in known for form in forms
             if (m := form.fullmatch(name)) and "n" in m.groupdict()}  # fmt: skip
    found = dict.fromkeys(row.proposed for row in proposal.rows if row.proposed)
    for theirs, _ in table:
        for stack, part in product(STACKS, ("weight", "bias")):
            for n in range(min(max(depth, default=0), MOST_LAYERS) + 1):
                found[uncut(theirs.format(stack=stack, part=part, n=n))] = None
    found |= dict.fromkeys(proposal.missing)
    allowed = [re.compile(form) for form in target.NAMES]
    return tuple(name for name in found if name in known or any(f.fullmatch(name) for f in allowed))


#: Names inside PyTorch's own layers, which other code bases do not have.
TORCH = {"in_proj_weight", "in_proj_bias", "linear1", "linear2", "norm1", "norm2"}


def propose(found: Candidate, layout: str | None = None) -> NameProposal:
    """Return the names of a layout for the weights of a file.

    Args:
        found: The file.
        layout: Name of the layout; None takes the one that fits best.

    Raises:
        CheckpointError: The layout has no proposals, or the file has no attention layers.
    """
    roles = find_roles(found.weights.tensors)
    targets = [target for target in TARGETS if layout in (None, target[0].NAME)]
    if not targets:
        known = ", ".join(target.NAME for target, _ in TARGETS)
        raise CheckpointError(
            f"Names are not proposed for the layout {layout!r}; choose one of {known}."
        )
    if not roles.stacks:
        raise CheckpointError(
            f"{found.path.name} has no numbered layers with matrices of attention, so no names can "
            "be proposed. Build its module with its own code, and load(module)."
        )
    made = [_proposal(target.NAME, table, roles, found) for target, table in targets]
    return max(made, key=_fit)


def _fit(proposal: NameProposal) -> float:
    """Return the score of a layout for a file: names found less names missing.

    Ties are decided by names that are equal, or stay those of PyTorch's own layers. A norm of
    another kind (``a_2`` for ``weight``) counts against a layout.
    """
    mapped = [(row.key, row.proposed) for row in proposal.rows if row.proposed is not None]
    alike = sum(key == name for key, name in mapped) / (len(mapped) or 1)
    ends = [(key.rpartition(".")[2], name.rpartition(".")[2]) for key, name in mapped]
    parts = [(key.split(".")[-2:], name.split(".")[-2:]) for key, name in mapped]
    kept = [one for one, name in parts if one == name and not TORCH.isdisjoint(one)]
    alike += len(kept) / (len(parts) or 1)
    other = sum((one in ANNOTATED) != (name in ANNOTATED) for one, name in ends)
    return len(mapped) - len(proposal.missing) - other + alike / 4


def _proposal(name: str, table: Table, roles: Roles, found: Candidate) -> NameProposal:
    """Return the proposal for one layout; a stack alone gets the layout's name of its stack."""
    choices = [_renamed(roles, stack) for stack in _alone(name, roles)]
    made = [_assigned(table, chosen) for chosen in choices]
    best = max(range(len(made)), key=lambda n: len(made[n]))
    given = made[best]
    rows, taken = [], set[str]()
    for key, tensor in found.weights.tensors.items():
        proposed, why = given.get(key, (None, ""))
        if key in roles.buffers:
            proposed, why = None, BUFFER
        if proposed in taken:
            proposed, why = None, ""
        if proposed is not None:
            taken.add(proposed)
            why = NAME if _inside(key) == _inside(proposed) else why
        rows.append(NameRow(key, tuple(tensor.shape), proposed, why))
    missing = _missing(table, choices[best], roles, taken)
    return NameProposal(name, tuple(rows), tuple(missing))


def _inside(name: str) -> str:
    """Return the end of a name, inside its layer."""
    return re.split(r"\.\d+\.", name)[-1]


def _alone(name: str, roles: Roles) -> tuple[str, ...]:
    """Return the possible names of a single stack: a decoder if it predicts the next token."""
    if ALONE not in roles.stacks:
        return ("",)
    causal = roles.output in (0, roles.tokens)
    if name == reference.NAME:
        return ("decoder",) if causal else ("encoder",)
    return ("decoder", "encoder") if causal else ("encoder", "decoder")


def _renamed(roles: Roles, stack: str) -> dict[str, tuple[str, str]]:
    """Return the roles, with a single stack renamed to ``stack``."""
    if not stack:
        return dict(roles.of)
    return {
        key: (re.sub(rf"^{ALONE}\.", f"{stack}.", role), why)
        for key, (role, why) in roles.of.items()
    }


def _assigned(
    table: Table, roles: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str | None, str]]:
    """Return the layout's name of each key, and the reason."""
    found: dict[str, tuple[str | None, str]] = {}
    for key, (role, why) in roles.items():
        name = _named(table, role)
        if name is not None:
            found[key] = name, why
    return found


def _named(table: Table, role: str) -> str | None:
    """Return the layout's name for a role; None if the layout has no such part."""
    spellings = [role]
    if ".positions.table" in role:
        plain = role.removesuffix(".weight")
        stack = role.partition(".")[0]
        places = (f"{stack}.embedding.table", f"{stack}.places.weight")
        spellings = [plain, f"{plain}.weight", *places]
    for spelling in spellings:
        for theirs, ours in table:
            form = FUSED.sub(".fused.", ours) if "[" in theirs else ours
            match = pattern(form).fullmatch(spelling)
            if match is not None:
                return uncut(theirs).format(**match.groupdict())
    return None


def _missing(
    table: Table, chosen: Mapping[str, tuple[str, str]], roles: Roles, taken: set[str]
) -> list[str]:
    """Return the missing names that the layout needs for the file's stacks and layers."""
    held = {role.partition(".")[0] for role, _ in chosen.values()}
    counts = {s: roles.stacks.get(s, roles.stacks.get(ALONE, 0)) for s in STACKS if s in held}
    needed: dict[str, list[str]] = {}
    for theirs, ours in table:
        form = FUSED.sub(".fused.", ours) if "[" in theirs else ours
        for stack in counts if "{stack}" in form else (form.partition(".")[0],):
            for n in range(counts.get(stack, 0)) if "{n}" in form else (0,):
                parts = {"stack": stack, "n": n, "part": "weight"}
                name = uncut(theirs.format(**parts))
                needed.setdefault(form.format(**parts), []).append(name)
    known = {role for role, names in needed.items() if not taken.isdisjoint(names)}
    looks = "decoder" in roles.stacks
    return [
        names[0]
        for role, names in needed.items()
        if role not in known
        and not OPTIONAL.fullmatch(role)
        and not (".cross_" in role and (role.startswith("encoder.") or not looks))
        and not _is_other_way(role, known)
    ]


def _is_other_way(role: str, known: set[str]) -> bool:
    """Return True if a projection exists in the other form: separate, or fused with others."""
    fused = FUSED.sub(".fused.", role)
    apart = (role.replace(".fused.", f".{piece}.") for piece in ("query", "key", "value"))
    return (fused != role and fused in known) or (".fused." in role and not known.isdisjoint(apart))
