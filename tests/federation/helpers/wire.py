"""An engine between a server and sites of this process that goes through bytes and can be made to fail."""

from pathlib import Path

from fault_jobs import CENTRES, Box

from fzoos.federation.exchange import Outcome
from fzoos.federation.site import StudySite
from fzoos.messages.codec import decode, encode


class Lost(RuntimeError):
    """What came of a message: nothing."""


class Wire:
    """Stations that are restarted for every message, as some engines do, or kept.

    Args:
        study: the study.
        folder: of the journals and the objectives' logs.
        objectives: one per site; default: boxes with a log.
        fault: called with (client, request) before the site sees a request; may raise `Lost`: then it does not.
        tamper: called with (client, request, reply bytes); what it returns is what the server gets.
        restart: whether every message meets a new site.
        **site: further settings of the sites; their seed is the study's, so that runs can be compared.
    """

    def __init__(self, study, folder, objectives=None, *, fault=None, tamper=None, restart=False, **site):
        self.study, self.folder, self.site = study, Path(folder), {"site_seed": study.seed} | site
        self.objectives = objectives or [
            Box(CENTRES[i], self.folder / f"{site}.log") for i, site in enumerate(study.sites)
        ]
        self.fault, self.tamper, self.restart = fault, tamper, restart
        self.sent = []  # (client, request, what became of it) in order
        self._stations = {}

    def exchange(self, requests, timeout):
        outcome = Outcome()
        for client, request in requests.items():
            try:
                if self.fault is not None:
                    self.fault(client, request)
                data = self.ask(client, encode(request, self.study.id))
                if self.tamper is not None:
                    data = self.tamper(client, request, data)
                outcome.replies[client] = decode(data, self.study.id)
                self.sent.append((client, request, "replied"))
            except (ValueError, RuntimeError) as error:
                outcome.failures[client] = error
                self.sent.append((client, request, str(error)))
        return outcome

    def ask(self, client, data):
        if client not in self._stations:
            path = self.folder / f"{self.study.sites[client]}.journal"
            self._stations[client] = StudySite(self.study, client, self.objectives[client], path, **self.site)
        try:
            return self._stations[client].answer(data)
        finally:
            if self.restart:
                self.close()

    def close(self):
        for site in self._stations.values():
            site.close()
        self._stations = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
