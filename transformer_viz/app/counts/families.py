"""Metrics of the server for Prometheus: read on request, and joined over several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.core import CollectorRegistry, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]

disable_created_metrics()  # two unused lines per label set


@dataclass(frozen=True)
class Asked:
    """Gauge whose numbers ``ask`` returns at each reading, by the values of ``labels``."""

    name: str
    about: str
    labels: Labels = ()
    ask: Callable[[], Mapping[Labels, float]] = dict

    def collect(self) -> Iterator[Metric]:
        """Yield the family with its current numbers."""
        family = GaugeMetricFamily(self.name, self.about, labels=self.labels)
        for values, number in self.ask().items():
            family.add_metric(values, number)
        yield family


def exposition(collectors: Iterable[CollectorRegistry | Asked]) -> str:
    """Return the families of all collectors in Prometheus' text format 0.0.4."""
    return _text([family for one in collectors for family in one.collect()])


def joined(texts: Mapping[str, str], label: str = "worker") -> str:
    """Join the texts of several processes: each number is labelled with its process.

    Args:
        texts: Response of each process, by its name.
        label: Name of the added label.
    """
    families: dict[str, Metric] = {}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            known = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            for one in family.samples:
                known.add_sample(one.name, {label: process, **one.labels}, one.value)
    return _text(families.values())


class _Families(list[Metric]):
    def collect(self) -> list[Metric]:
        return self


def _text(families: Iterable[Metric]) -> str:
    return generate_latest(_Families(families)).decode()
