"""``contract verify SPEC --server URL``: recognise, check, ask, count, judge. Nothing is sent but prompts, one at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contract.errors import UserError
from contract.findings import Check, Json, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from contract.progress import progress
from contract.reporting import Report
from contract.requests import VerifyRequest
from contract.statement import fact
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import Recipe
from eagle3_contract.verify.collect import Findings
from eagle3_contract.verify.frame import Frame, subject_of
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.address import parse_address
from eagle3_contract.verify.server.client import Client
from eagle3_contract.verify.server.facts import Prompt, Server, Told, Window
from eagle3_contract.verify.server.identity import shown_checks
from eagle3_contract.verify.server.judge import acceptance_checks, counting_checks, measurement, speculation_check
from eagle3_contract.verify.server.prompts import asked_tokens, file_prompts, fitting, sample_prompts
from eagle3_contract.verify.server.reading import Readers, readers_of, static_checks
from eagle3_contract.verify.server.recognise import recognise

if TYPE_CHECKING:
    from eagle3_contract.verify.sample_set import SampleSet


def verify_server(request: VerifyRequest, *, limits: Limits = DEFAULT_LIMITS) -> Report:
    """Ask a running server. Never raises a ``UserError``: what was unusable is in the report (exit 2)."""
    frame = Frame(request=request, limits=limits, subject=subject_of(request, ("spec", "server", "samples", "prompts", "target")))
    clients: list[Client] = []

    def run(loaded: LoadedContract) -> None:
        _Run(request, loaded, clients[0], frame.found, frame.measurements, frame.provenance, limits).run()

    return frame.report(run, dimension="engine", before=lambda: clients.append(_client(request, frame.subject, limits)))


def _client(request: VerifyRequest, subject: dict[str, Json], limits: Limits) -> Client:
    url = str(request.server)
    subject["server"] = "(not usable)"  # until it has been seen to hold no password
    address = parse_address(url)
    subject["server"] = str(address)
    return Client(address, limits, os.environ)


class _Run:
    """One run over one contract and one server."""

    def __init__(
        self,
        request: VerifyRequest,
        loaded: LoadedContract,
        client: Client,
        found: Findings,
        measurements: dict[str, Json],
        provenance: dict[str, Json],
        limits: Limits,
    ) -> None:
        self.request, self.loaded, self.client, self.found = request, loaded, client, found
        self.measurements, self.provenance, self.limits = measurements, provenance, limits
        self.samples: SampleSet | None = None

    def run(self) -> None:
        server, readers, problem = self._recognise()
        self.found.add(*static_checks(self.loaded, self.request, readers, self.limits))
        if server is None:
            if problem is not None:
                self.found.add(problem)
            return
        self.provenance["server"] = server.facts.name
        self.found.add(rules.ENGINE.passed(f"{self.client.address} is {server.facts.name}", actual=server.facts.name))
        self.found.add(*readers.checks, *shown_checks(self.loaded, server.facts))
        if problem is not None:
            self.found.add(problem)
        told = self._ask(server)
        self.measurements["server"] = measurement(self.loaded, server.facts, told, server.since_start())
        self.found.add(speculation_check(server.facts, told), *counting_checks(server.facts, told))
        self.found.add(*acceptance_checks(self.loaded, server.facts, told, predicted=self._predicts()))
        self._predicted(server, told)

    def _recognise(self) -> tuple[Server | None, Readers, Check | None]:
        """The server and its readings. What is wrong with it does not keep the files from being checked."""
        server: Server | None = None
        try:
            server = recognise(self.client)
            return server, readers_of(server.facts, self.request.serve_args), None
        except UserError as error:
            return server, Readers(), check_from_error(error, dimension="engine")

    def _ask(self, server: Server) -> list[Told]:
        told: list[Told] = []
        try:
            asked = asked_tokens(self.request.max_new_tokens, self.limits)
            sized, checks = fitting(self._prompts(), asked, server.facts)
            self.found.add(*checks)
            with progress(len(sized), "prompts") as tick:
                for prompt, tokens in sized:
                    told.append(server.ask(prompt, tokens))
                    tick()
        except UserError as error:
            # What was answered so far is judged all the same.
            self.found.error(error, "engine")
        return told

    def _prompts(self) -> Sequence[Prompt]:
        """Raises UserError."""
        if self.request.prompts is not None:
            return file_prompts(self.request.prompts, self.limits)
        return self._sample_prompts()

    def _sample_prompts(self) -> Sequence[Prompt]:
        from eagle3_contract.verify.sample_set import open_samples  # torch is needed only here

        stated = fact(self.loaded.contract.training.samples.states)
        recipe = fact(self.loaded.contract.hidden_states.boundaries)
        states: Recipe = tuple(stated.value) if stated.known else tuple(recipe.value) if recipe.known else ()
        self.samples, checks = open_samples(
            self.loaded, self.request.samples, states, allow_pickle=self.request.allow_pickle, limits=self.limits
        )
        if self.samples is None:
            raise rules.rejected("server.prompts", f"there is nothing to send: {checks[-1].message}")
        self.found.add(*checks)
        prompts = list(sample_prompts(self.samples, self.limits))
        if not prompts:
            raise rules.rejected("server.prompts", "no sample has a token before those that training counted: nothing to send")
        if len(prompts) < len(self.samples.files):
            self.provenance["prompts"] = f"of {len(prompts)} of {len(self.samples.files)} samples"
        return prompts

    def _predicts(self) -> bool:
        return self.request.samples is not None or (self.request.target is not None and Path(self.request.target).is_dir())

    def _predicted(self, server: Server, told: Sequence[Told]) -> None:
        """Only where samples or the target are given for it: it runs the drafter, which takes its time."""
        request = self.request
        if not self._predicts():
            return
        from eagle3_contract.verify.server.predict import not_predicted, on_answers, on_samples, predicted_checks  # torch

        try:
            if request.samples is not None:
                if self.samples is None:
                    self._sample_prompts()
                assert self.samples is not None
                prediction = on_samples(self.loaded, request, self.samples, self.limits)
            else:
                prediction = on_answers(self.loaded, request, told, self.limits)
        except UserError as error:
            self.found.add(not_predicted(error))
            return
        self.found.add(*prediction.checks)
        if not prediction.figures.lengths:
            return
        self.measurements["training_path"] = prediction.figures.as_measurement()
        own = {t.prompt.id: t.counts for t in told if t.window is Window.OWN and t.counts is not None}
        self.found.add(*predicted_checks(prediction, own, server.facts))
