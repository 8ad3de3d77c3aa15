"""Recorder of a real API server: `python -m tests.embedded.record_kube` writes the traces."""

import json

from tests.embedded.kube_trace import HOME, RECORDED, trace
from tests.embedded.kube_workloads import SCENARIOS
from tests.real.test_differential_kube import Real
from tests.real.testbed import KubeServer


def main() -> None:
    with KubeServer(controllers=False, kubelet=False) as server:
        server.ensure_namespace(HOME)
        real = Real(server)
        lines = []
        for name, steps in SCENARIOS.items():
            real.clean()
            traced = json.dumps(trace(real, steps), separators=(",", ":"), sort_keys=True)
            lines.append(f"{json.dumps(name)}: {traced}")
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{RECORDED.name}: {len(lines)} scenarios, {RECORDED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
