"""A minimal HTTP server that acts as both APIs for any number of hosts.

`python -m tests.bench.bare HOSTS` prints its port. It serves recorded objects as a Kubernetes API
server does: lists in pages, WatchLists, and patches that appear on the watch. It also acts as
slurmrestd 26.05, with 304 and with the latency of a listing of that size. `/bench/writes` returns
the number of writes.
"""

import asyncio
import itertools
import sys
from collections.abc import Mapping, Sequence

from aiohttp import web

from tests.bench.bare_kube import Collection, Kube
from tests.bench.bare_slurm import Slurm
from tests.bench.shapes import PODS_PER_HOST, Shapes, host_name, workload_name


def collections(hosts: Sequence[bytes]) -> Mapping[str, Collection]:
    """Return the objects by path of their collection."""
    shapes = Shapes("cold")

    def node(number: int) -> bytes:
        return shapes.node.made(hosts[number], version=number + 1)

    def slurmd_pod(number: int) -> bytes:
        return shapes.slurmd_pod.made(hosts[number], version=number + 1)

    def workload(number: int) -> bytes:
        host, place = divmod(number, PODS_PER_HOST)
        return shapes.workload(hosts[host], place, version=number + 1)

    pods = [f"slurmd-{host.decode()}" for host in hosts]
    places = itertools.product(hosts, range(PODS_PER_HOST))
    workloads = [workload_name(host, place).decode() for host, place in places]
    return {
        "/api/v1/nodes": Collection("Node", [host.decode() for host in hosts], node),
        "/api/v1/namespaces/slurm/pods": Collection("Pod", pods, slurmd_pod),
        "/api/v1/namespaces/default/pods": Collection("Pod", workloads, workload),
    }


def application(count: int) -> web.Application:
    app = web.Application(client_max_size=1 << 24)
    hosts = [host_name(number) for number in range(count)]
    slurm, kube = Slurm(hosts), Kube(collections(hosts))

    async def writes(_: web.Request) -> web.Response:
        return web.json_response({"kubernetes": kube.writes, "slurm": slurm.writes})

    app.router.add_get("/bench/writes", writes)
    app.router.add_routes(slurm.routes())
    app.router.add_routes(kube.routes())
    return app


async def main(hosts: str) -> None:
    runner = web.AppRunner(application(int(hosts)), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
