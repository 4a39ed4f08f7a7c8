"""Papers, recomputed: each folder regenerates the tables and claims of one source beside our numbers.

The studies use the public interface of liebody alone. A study is a folder whose module `page` has
`study() -> Report`; `reproduce(name, out)` writes its report, one HTML file that needs neither network nor
scripts. A new study is a folder and a line in STUDIES.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from liebody.base.errors import LiebodyError, require

STUDIES = {
    "feurstein-2021-hopping": "feurstein_hopping",
    "feurstein-2021-theory": "feurstein_theory",
    "from-2012": "from_2012",
    "mueller-terze-2013": "mueller_terze",
    "multibody-benchmarks": "multibody_benchmarks",
    "ploen": "ploen",
    "rnea-notes": "rnea_notes",
}
NEEDED = ("sympy", "scipy", "xarray", "zarr", "cloudpickle", "matplotlib")


def reproduce(name: str, out: str | Path = ".", full: bool = False) -> Path:
    """Recompute the paper `name` and write the report `out`/`name`.html; returns its path.

    full  whether to run what takes minutes more, of studies that have such a part; the others are the same

    Raises LiebodyError for a name that is not in STUDIES, MissingPackage without a package of NEEDED.
    """
    if name not in STUDIES:
        raise LiebodyError(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    require("studies", *NEEDED, extra="studies")
    study = importlib.import_module(f"{__name__}.{STUDIES[name]}.page").study
    report = study(full=True) if full and "full" in inspect.signature(study).parameters else study()
    path: Path = report.save(Path(out) / f"{name}.html")
    return path
