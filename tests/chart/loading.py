"""The settings of a rendered chart, loaded as the process loads them."""

from pathlib import Path

from sunk_sync.settings.model import Settings
from sunk_sync.settings.sources import CONFIG_VARIABLE, load
from tests.chart.helm import NAMESPACE, Object, of_kind, the


def loaded(objects: list[Object], folder: Path, **flags: str) -> Settings:
    """Load the settings of the Pod, with its files in this folder and further flags."""
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert variables[CONFIG_VARIABLE] == f"{mounted['config']}/config.yaml"
    for token in ("token", "jwt"):
        (folder / token).write_text("x")
    for file, text in of_kind(objects, "ConfigMap")[0]["data"].items():
        here = text.replace(mounted["config"], str(folder))
        (folder / file).write_text(here.replace(mounted["token"], str(folder)))
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return load(given, {CONFIG_VARIABLE: str(folder / "config.yaml")}, NAMESPACE)
