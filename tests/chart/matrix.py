"""Values files that operators write. Each must render, pass validation and load as settings."""

from tests.chart.helm import Values

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "sunk-sync"}},
}
PEERS = [
    {"namespaceSelector": {"matchLabels": {"team": "slurm"}}},
    {"ipBlock": {"cidr": "10.0.0.0/8"}},
]
JWT = {"name": "jwt", "items": [{"key": "t", "path": "token"}]}
TOKEN_VOLUME = {"projected": {"sources": [{"secret": JWT}]}}

MATRIX: dict[str, Values] = {
    "defaults": {},
    "syncer alone": {"scheduler": {"enabled": False}},
    "cluster scope": {"scheduler": {"scope": {"type": "cluster"}}},
    "cluster scope, syncer alone": {"scheduler": {"enabled": False, "scope": {"type": "cluster"}}},
    "namespaces as text": {"scheduler": {"scope": {"namespaces": "team-a, team-b,team-a"}}},
    "namespaces as list": {"scheduler": {"scope": {"namespaces": ["team-a", "slurm"]}}},
    "slurmd elsewhere": {"slurmd": {"namespaces": "workers,slurm", "selector": "app in (slurmd)"}},
    "slurmd elsewhere, cluster scope": {
        "slurmd": {"namespaces": ["workers"]},
        "scheduler": {"scope": {"type": "cluster"}, "name": "gpu-slurm"},
    },
    "NodeSets": {"nodesets": {"enabled": True}},
    "NodeSets, slurmd elsewhere": {
        "nodesets": {"enabled": True},
        "slurmd": {"namespaces": ["workers", "team-a"]},
    },
    "NodeSets, cluster scope": {
        "nodesets": {"enabled": True},
        "scheduler": {"scope": {"type": "cluster"}},
    },
    "NodeSets, syncer alone": {
        "nodesets": {"enabled": True, "crd": {"create": False}},
        "scheduler": {"enabled": False},
    },
    "NodeSets of the chart": {
        "nodesets": {"enabled": True},
        "compute": {
            "nodes": {
                "base": {"image": "r.example/slurmd:26.05", "args": ["-D"]},
                "cpu": {"enabled": True, "definitions": ["base"], "replicas": 2},
            }
        },
    },
    "the kind alone": {"nodesets": {"enabled": False, "crd": {"create": True}}},
    "all Pods": {"scheduler": {"watchAllPods": True}},
    "all Pods, cluster scope": {"scheduler": {"watchAllPods": True, "scope": {"type": "cluster"}}},
    "defaults of Namespaces": {
        "scheduler": {"userPolicy": {"*": {"users": "1-9", "namespace-defaults": True}}}
    },
    "defaults of Namespaces, switched off": {
        "scheduler": {"userPolicy": {"team-a": {"users": "1-9", "namespace-defaults": False}}}
    },
    "lock": {"lock": {"enabled": True}},
    "lock, all Pods": {"lock": {"enabled": True}, "scheduler": {"watchAllPods": True}},
    "alerts and dashboards": {
        "metrics": {
            "prometheusRule": {"enabled": True, "labels": {"release": "prom"}},
            "dashboards": {"enabled": True},
        }
    },
    "traces": {"traces": {"endpoint": "http://collector.monitoring:4318", "sample": 0.1}},
    "one replica": {"leaderElection": {"enabled": False}},
    "spread by hand": {"topologySpreadConstraints": [SPREAD]},
    "another cluster name": {"clusterName": "HPC_2.east"},
    "own hooks key": {"hooks": {"key": {"existingSecret": "my-key", "key": "hooks"}}},
    "hooks from outside": {
        "hooks": {
            "url": "http://hooks.example:30800",
            "service": {"type": "NodePort", "nodePort": 30800, "annotations": {"team": "hpc"}},
        }
    },
    "hooks behind a load balancer": {"hooks": {"service": {"type": "LoadBalancer"}}},
    "gate": {
        "gate": {"configMap": {"enabled": True, "namespace": "workers", "silent": "60s=requeue"}}
    },
    "token in the values": {"slurm": {"auth": {"token": "a.b.c", "key": "jwt"}}},
    "token in a volume": {"slurm": {"auth": {"volume": TOKEN_VOLUME}}},
    "TLS and two addresses": {
        "slurm": {"apiBase": ["https://a:6820", "https://b:6820"], "ca": {"existingSecret": "ca"}}
    },
    "settings": {
        "settings": {
            "slurm-kill-wait": "1m30s",
            "not-ready-grace": 10,
            "max-drains-per-minute": 2000000,
            "dry-run": True,
            "gate": "on",
            "log-level": "debug",
            "gres-map": {"nvidia.com/gpu": "gpu", "rdma/*": "-"},
            "priority-map": "high=qos=urgent",
            "node-overhead": {"cpu": "500m", "memory": "1Gi"},
        }
    },
    "user policy": {
        "scheduler": {"userPolicy": {"team-a": 1001, "team-b": [1002, "2000-2999"], "*": 65534}}
    },
    "rules of namespaces": {
        "scheduler": {
            "scope": {"namespaces": "team-a,team-b"},
            "userPolicy": {
                "team-a": {"default-user": 1001, "accounts": ["games"], "users": "1002,2000-2999"},
                "team-b": {"default-user": 3000001, "max-priority": 4294967293, "qos": "*"},
                "*": None,
            },
        }
    },
    "open to all": {"scheduler": {"openToAll": True}},
    "no admission policy": {"admissionPolicy": {"enabled": False}},
    "network policy": {
        "networkPolicy": {
            "enabled": True,
            "hooksFrom": PEERS,
            "metricsFrom": PEERS,
            "egress": [{"to": PEERS, "ports": [{"port": 6820}]}],
        }
    },
    "open network policy, syncer alone": {
        "networkPolicy": {"enabled": True},
        "scheduler": {"enabled": False},
    },
    "ServiceMonitor": {
        "metrics": {"serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"r": "a"}}}
    },
    "PodMonitor": {"metrics": {"podMonitor": {"enabled": True}}},
    "no roles, other account": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "operator"},
    },
    "digest": {"image": {"repository": "hpc/sunk-sync", "digest": f"sha256:{'0f' * 32}"}},
    "names": {"fullnameOverride": "bridge", "commonLabels": {"team": "hpc"}},
    "Pod": {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "extraArgs": ["--log-level=debug"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "tmp", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "resources": {"limits": {"memory": "1Gi"}},
        "serviceAccount": {"annotations": {"role": "x"}},
    },
    "security context of OpenShift": {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    },
}
"""Name → values."""
