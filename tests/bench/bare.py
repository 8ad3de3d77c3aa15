"""A minimal HTTP server that acts as both APIs for any number of hosts.

`python -m tests.bench.bare HOSTS (streams|pages)` prints its port. It serves recorded objects as a
Kubernetes API server does: lists in pages, open watches, WatchLists or their refusal, and patches
that appear on the watch. It also acts as slurmrestd 26.05, with 304 and with the latency of a
listing of that size. `/bench/writes` returns the number of writes.
"""

import asyncio
import sys
from collections.abc import Mapping

from aiohttp import web

from tests.bench.bare_kube import Collection, Kube
from tests.bench.bare_slurm import Slurm
from tests.bench.shapes import PODS_PER_HOST, Shape, host_name, recorded, workload_uid


def collections(hosts: int) -> Mapping[str, Collection]:
    """Return the objects by path of their collection."""
    node, slurmd_pod, pod = (
        Shape(recorded(f"{name}-cold")) for name in ("node", "slurmd-pod", "pod")
    )

    def a_node(number: int) -> bytes:
        return node.made(host_name(number), version=number + 1)

    def a_slurmd_pod(number: int) -> bytes:
        return slurmd_pod.made(host_name(number), version=number + 1)

    def a_pod(number: int) -> bytes:
        on, place = divmod(number, PODS_PER_HOST)
        host = host_name(on)
        name = b"work-%b-%d" % (host[-5:], place)
        return pod.made(host, version=number + 1, uid=workload_uid(host, place), name=name)

    names = [host_name(number).decode() for number in range(hosts)]
    pods = [f"slurmd-{name}" for name in names]
    workloads = [f"work-{name[-5:]}-{place}" for name in names for place in range(PODS_PER_HOST)]
    return {
        "/api/v1/nodes": Collection("Node", names, a_node),
        "/api/v1/namespaces/slurm/pods": Collection("Pod", pods, a_slurmd_pod),
        "/api/v1/namespaces/default/pods": Collection("Pod", workloads, a_pod),
    }


def application(hosts: int, *, streams: bool) -> web.Application:
    app = web.Application(client_max_size=1 << 24)
    slurm = Slurm([host_name(number) for number in range(hosts)])
    kube = Kube(collections(hosts), streams=streams)

    async def writes(_: web.Request) -> web.Response:
        return web.json_response({"kubernetes": kube.writes, "slurm": slurm.writes})

    app.router.add_get("/bench/writes", writes)
    app.router.add_routes(slurm.routes())
    app.router.add_routes(kube.routes())
    return app


async def main(hosts: str, lists: str) -> None:
    runner = web.AppRunner(application(int(hosts), streams=lists == "streams"), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
