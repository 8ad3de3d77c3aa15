"""The names in the documentation exist: flags, chart values, metrics, annotations."""

import re

from sunk_sync.__main__ import DEMO_FLAGS, QUESTIONS
from sunk_sync.core.model import names
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.settings.model import FIELDS, REMOVED, flag_of
from sunk_sync.telemetry.metrics import SPECS
from tests.docs.chart import VALUES, is_value
from tests.docs.pages import ROOT, blocks, pages, spans, text_of, words

OTHERS = {
    "--cascade": "kubectl delete",
    "--validate": "kubectl apply",
    "--conf-server": "slurmd",
    "--force": "kubectl delete",
    "--field-selector": "kubectl get",
    "--from-file": "kubectl create secret",
    "--nodelist": "srun",
    "--no-requeue": "sbatch",
    "--older": "tests.sim",
    "--keep-logs": "tests.sim",
    "--take-ownership": "helm install",
    "--type": "kubectl patch",
    "--zap-log-level": "SUNK",
}
"""Flags of other programs that a code span begins with or has inside."""


def flags_of_sunk_sync() -> set[str]:
    of_commands = {flag for flags in QUESTIONS.values() for flag in flags}
    return {flag_of(field) for field in FIELDS} | of_commands | {*DEMO_FLAGS, "--config", "--help"}


def flags_of_programs() -> set[str]:
    """Return the flags of the scripts beside Slurm, and of the tools and tests here."""
    files = [*(ROOT / "deploy" / "slurm").glob("*.sh"), *(ROOT / "tools").glob("*.py")]
    files += [*(ROOT / "tests").rglob("__main__.py"), *(ROOT / "tests" / "chaos").glob("*.py")]
    return {flag for file in files for flag in re.findall(r"--[a-z][a-z-]+", file.read_text())}


def test_each_flag_in_the_text_exists() -> None:
    """A code span that begins with a flag is about a flag of ours, or of a program here."""
    known = flags_of_sunk_sync() | flags_of_programs() | OTHERS.keys()
    found = [
        (page, flag)
        for page, span in spans()
        if span.startswith("--")
        for flag in re.findall(r"(?:^|\s)(--[a-z][a-z0-9-]*)", span)
    ]
    gone = {("docs/changelog.md", f"--{key}") for key in REMOVED}
    assert not [one for one in found if one[1] not in known and one not in gone]
    print(f"{len(found)} flags in the text")


def test_each_other_flag_is_still_needed() -> None:
    text = "\n".join(text_of(page) for page in pages())
    assert not [flag for flag in OTHERS if flag not in text]


def attributes_of_traces() -> set[str]:
    """Return the attributes of spans, as the modules that set them spell them."""
    files = (ROOT / "sunk_sync" / "telemetry" / f"{name}.py" for name in ("pod_phases", "traces"))
    pattern = r'"((?:k8s|slurm)\.[a-z_.]+|sunk_sync\.[a-z_]+)"'
    return {name for file in files for name in re.findall(pattern, file.read_text())}


def test_the_page_about_traces_names_each_attribute() -> None:
    named = {span for page, span in spans() if page == "docs/howto/traces.md"}
    assert attributes_of_traces() - named == set()
    assert {one for one in named if re.match(r"(k8s|slurm|sunk_sync)\.", one)} == (
        attributes_of_traces()
    )


def test_each_chart_value_exists() -> None:
    text = [(block.place, block.text.replace("\\\n", " ")) for block in blocks()]
    text += list(spans())
    found = {
        (place, name)
        for place, line in text
        for name in re.findall(r"--set(?:-json|-string)?[ =]'?([A-Za-z][\w.-]*)=", line)
    }
    tops = "|".join(name for name in VALUES if name not in ("resources", "settings"))
    found |= {
        (page, span)
        for page, span in spans()
        if re.fullmatch(rf"(?:{tops})(?:\.[a-z]\w*)+", span) and not is_field(span)
    }
    found = {one for one in found if one[1] not in attributes_of_traces()}
    assert not [one for one in found if not is_value(VALUES, one[1])]
    assert found
    print(f"{len(found)} chart values")


def is_field(span: str) -> bool:
    """Whether the name is one of a NodeSet or of a tool, not of the chart."""
    return span in {"lock.yaml"} or span.endswith((".py", ".sh", ".md", ".lock"))


def test_each_metric_exists() -> None:
    known = {spec.name for spec in SPECS}
    known |= {f"{one.name}_{end}" for one in SPECS for end in ("bucket", "count", "sum")}
    pattern = r"(?<![\w/.`])`?\b(?:sunk_sync|kube_sunk)_[a-z_]+"
    found = [(page, word.strip("`")) for page, word in words(pattern)]
    wrong = [
        (page, word)
        for page, word in found
        if word not in known and not (word.endswith("_") and is_beginning(word))
    ]
    assert not wrong
    assert len(found) > 100
    print(f"{len(found)} names of metrics")


def is_beginning(word: str) -> bool:
    """Whether the word stands for all metrics that begin so: `kube_sunk_nodeset_*`."""
    return any(spec.name.startswith(word) for spec in SPECS)


def test_each_annotation_and_label_exists() -> None:
    ours = {value for value in vars(names).values() if isinstance(value, str)}
    known = {value for value in ours if value.startswith(names.PREFIX)}
    known |= {names.PREFIX + setting.annotation for setting in SETTINGS.values()}
    found = [
        (page, word.rstrip("-")) for page, word in words(rf"{re.escape(names.PREFIX)}[a-z][a-z-]*")
    ]
    assert not [one for one in found if one[1] not in known]
    assert len(found) > 50
    print(f"{len(found)} annotations and labels")


def test_each_object_of_our_group_has_the_version_of_the_kind() -> None:
    versions = {word for _, word in words(r"sunk-sync\.dev/\w+")}
    assert versions == {"sunk-sync.dev/v1alpha1"}
