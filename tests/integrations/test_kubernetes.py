"""The Kubernetes example: its shape, its policy, and its two command lines run with the volumes where this machine has them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from contract.policy import load_policy

from .conftest import ROOT, Workspace

CONFIG, DEPLOYMENT = yaml.safe_load_all((ROOT / "examples" / "kubernetes.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]
INIT, SERVER = POD["initContainers"][0], POD["containers"][0]


def command(container: dict[str, Any], workspace: Workspace, *, entrypoint: tuple[str, ...] = ()) -> str:
    words = [*(container.get("command") or entrypoint), *container["args"]]
    return shlex.join(words).replace("/models", str(workspace.root))


@pytest.fixture
def policy(workspace: Workspace) -> dict[str, str]:
    path = workspace.root / "policy.yaml"
    path.write_text(CONFIG["data"]["policy.yaml"])
    assert load_policy([str(path)]).integrity == "digests"
    return {"CONTRACT_POLICY": str(path)}


@pytest.mark.slow
def test_the_schema_of_kubernetes() -> None:
    import kubernetes_validate

    for document in (CONFIG, DEPLOYMENT):
        kubernetes_validate.validate(document, "1.32", strict=True)


def test_everything_that_is_mounted_is_there() -> None:
    volumes = {volume["name"] for volume in POD["volumes"]}
    for container in (INIT, SERVER):
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounts) == volumes
        variables = {item["name"]: item["value"] for item in container["env"]}
        assert variables["CONTRACT_POLICY"] == f"{mounts['policy']}/{next(iter(CONFIG['data']))}"
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert POD["volumes"][1]["configMap"]["name"] == CONFIG["metadata"]["name"]


def test_the_init_container(workspace: Workspace, policy: dict[str, str]) -> None:
    line = command(INIT, workspace, entrypoint=("contract",))
    ran = workspace.run(line, policy)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workspace.miswire()
    assert workspace.run(line, policy).returncode == 1


def test_the_guarded_server(workspace: Workspace, policy: dict[str, str]) -> None:
    line = command(SERVER, workspace)
    ran = workspace.run(line, policy)
    assert ran.returncode == 0, ran.stderr
    assert workspace.started[1:] == [word.replace("/models", str(workspace.root)) for word in SERVER["args"][1:]]
    (workspace.root / "started.txt").unlink()
    workspace.miswire()
    assert (workspace.run(line, policy).returncode, workspace.started) == (1, [])
