"""Where things were in release 0.1.0, and where they are now."""

from __future__ import annotations

__all__ = ["OLD_ATTRIBUTES", "OLD_MODULES", "OLD_NAMES"]

OLD_MODULES = {
    f"fzoos.{old}": f"fzoos.{new}"
    for old, new in {
        "algorithms.cma": "algorithms.fedcma",
        "algorithms.correction": "algorithms.fixed_fzoos.correction",
        "algorithms.fzoos_client": "algorithms.fixed_fzoos.client",
        "algorithms.historical": "algorithms.fedhistory",
        "arrays": "_util.arrays",
        "cli_dashboard": "cli.dashboard",
        "cli_help": "cli.help",
        "cli_runs": "cli.runs",
        "cli_study": "cli.study",
        "dashboard": "runs.dashboard",
        "dashboard.data": "runs.dashboard.data",
        "dashboard.guard": "runs.dashboard.guard",
        "dashboard.report": "runs.report",
        "dashboard.server": "runs.dashboard.server",
        "describe": "_util.describe",
        "differences": "runs.compare",
        "engines.base": "federation.exchange",
        "engines.flare.desk": "engines.flare.serial_worker",
        "errors": "result",
        "estimators": "algorithms.finite_differences",
        "export": "runs.export",
        "federation.codec": "messages.codec",
        "federation.local_study": "engines.local_study",
        "federation.lock": "_util.lock",
        "federation.message": "messages.message",
        "federation.precision": "messages.precision",
        "federation.rounding": "messages.rounding",
        "federation.station": "federation.site",
        "federation.tally": "_util.row_count",
        "keeper": "runs.writer",
        "kept": "runs.reader",
        "kernels": "surrogates.kernels",
        "lengths": "algorithms.fixed_fzoos.correction_lengths",
        "noise": "surrogates.noise",
        "optimizers": "algorithms.optimizers",
        "people": "objectives.manual",
        "problem": "objectives.box",
        "program": "objectives.program",
        "progress": "runs.progress",
        "queries": "algorithms.fixed_fzoos.query_designs",
        "radius": "algorithms.fixed_fzoos.radius",
        "recommend": "runs.recommend",
        "report": "runs.plots",
        "runs_text": "runs.text",
        "serve": "objectives.serve",
        "steps": "algorithms.fixed_fzoos.step_scale",
        "store": "runs.store",
        "surrogates.fit": "surrogates.length_scale",
        "trajectory": "objectives.trajectory",
    }.items()
}

OLD_NAMES = {
    "Desk": "SerialWorker",
    "Keeper": "RunWriter",
    "Kept": "StoredRun",
    "Party": "RequestHandler",
    "People": "ManualObjective",
    "Shelf": "RunIndex",
    "Station": "StudySite",
    "Tally": "RowCount",
    "check_ours": "check_run_file",
}

OLD_ATTRIBUTES = {
    "fzoos.People": "fzoos.objectives.manual.ManualObjective",
    "fzoos.algorithms.base.Site": "fzoos.algorithms.base.ClientContext",
    "fzoos.engines.local.Party": "fzoos.engines.local.RequestHandler",
    "fzoos.federation.LocalStudy": "fzoos.engines.LocalStudy",
    "fzoos.federation.Station": "fzoos.federation.StudySite",
}
