"""Data sets of the Hugging Face hub, fetched and kept by the library ``datasets``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multidraft.bench.data.example import Row
from multidraft.errors import DataUnavailable, InvalidInput


@dataclass(frozen=True)
class HubData:
    """Where the hub has a data set: its id, configuration, split and revision (None: main)."""

    path: str
    config: str | None
    split: str
    revision: str | None = None


def rows_from_hub(data: HubData) -> Iterator[Row]:
    """Rows in the hub's order, downloaded once.

    Raises:
        InvalidInput: ``datasets`` is not installed.
        DataUnavailable: no network, or no such data set.
    """
    try:
        import datasets
    except ImportError:
        raise InvalidInput(
            "Data sets from the hub need more packages: pip install '.[bench]', or give --data-dir."
        ) from None
    try:
        table = datasets.load_dataset(
            data.path, data.config, split=data.split, revision=data.revision
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataUnavailable(
            f"Cannot fetch {data.path} from the Hugging Face hub ({reason}); check the network, "
            "or download the data set's file and name its folder with --data-dir."
        ) from error
    for i, values in enumerate(table):
        yield Row(values, f"{data.path} {data.split}[{i}]")
