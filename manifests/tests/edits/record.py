#!/usr/bin/env python3
"""Records edits of applied objects on a real API server: record.py SERVER TOKEN >edits.json

Each record has the answer to our apply, the live object after an edit, and the answer to a forced dry run. Expected decisions are written
beside each edit here. The namespace `fairlead-drift` is made and deleted. A token of an administrator is needed.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request

SERVER, TOKEN = sys.argv[1:3]
TLS = ssl.create_default_context()
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE
NS = "fairlead-drift"
MANAGER = "fairlead/b-shop"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"


def call(method, path, body=None, kind="application/json"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
    request = urllib.request.Request(SERVER + path, data, headers, method=method)
    try:
        return json.load(urllib.request.urlopen(request, context=TLS))
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error


def deployment():
    container = {
        "name": "web", "image": "web:1", "args": ["a"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80}],
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a"}]},
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NS, "labels": {"app": "web", "fairlead/bundle": "b-shop"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def config_map():
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": NS, "labels": {"fairlead/bundle": "b-shop"}},
        "data": {"a": "1", "b": "2"},
    }


PATHS = {
    "Deployment": f"/apis/apps/v1/namespaces/{NS}/deployments/web",
    "ConfigMap": f"/api/v1/namespaces/{NS}/configmaps/web",
}


def patch(body, kind=MERGE, manager="kubectl-edit", force="", sub=""):
    return lambda path, _: call("PATCH", f"{path}{sub}?fieldManager={manager}{force}", body, kind)


def put(change):
    def edit(path, live):
        change(live)
        call("PUT", f"{path}?fieldManager=kubectl-replace", live)

    return edit


def containers(**fields):
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:1", **fields}]}}}}


def strategic(body):
    return patch(body, "application/strategic-merge-patch+json")


def late(body):
    def edit(path, _):
        time.sleep(2.1)
        call("PATCH", f"{path}?fieldManager={MANAGER}&force=true", body, APPLY)

    return edit


def changed(value):
    return {**config_map(), "data": {"a": value, "b": "2"}}


# Spec and annotations of a Deployment move its generation: such an edit beside our fields costs a dry run.
C = ".spec.template.spec.containers[name=web]"
EDITS = [
    ("value changed", config_map, patch({"data": {"a": "9"}}), "Ownership", [".data.a Changed kubectl-edit"]),
    ("value changed and back", config_map, lambda p, o: (patch({"data": {"a": "9"}})(p, o), patch({"data": {"a": "1"}})(p, o)), "Ownership", []),
    ("key removed", config_map, patch({"data": {"a": None}}), "Ownership", [".data.a Removed"]),
    ("all data removed", config_map, patch({"data": None}), "Ownership", [".data Removed"]),
    ("key added", config_map, patch({"data": {"c": "3"}}), "Same", []),
    ("PUT with another value", config_map, put(lambda it: it["data"].update(a="9")), "Ownership", [".data.a Changed kubectl-replace"]),
    ("PUT without change", config_map, put(lambda it: None), "Same", []),
    ("managedFields stripped", config_map, patch([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}], JSON), "Ownership", []),
    ("forced apply by others", config_map, patch(changed("9"), APPLY, "argocd", "&force=true"), "Ownership", [".data.a Changed argocd"]),
    ("apply under our name", config_map, late(changed("9")), "OwnName", [".data.a Changed fairlead/b-shop"]),
    ("update under our name", config_map, patch({"data": {"a": "9"}}, manager=MANAGER), "Ownership", [".data.a Changed fairlead/b-shop"]),
    ("label changed", deployment, patch({"metadata": {"labels": {"app": "x"}}}), "Ownership", [".metadata.labels.app Changed kubectl-edit"]),
    ("label added", deployment, patch({"metadata": {"labels": {"x": "y"}}}), "Same", []),
    ("annotation added", deployment, patch({"metadata": {"annotations": {"x": "y"}}}), "Generation", []),
    ("scale", deployment, patch({"spec": {"replicas": 5}}, sub="/scale", manager="kubectl"), "Ownership", [".spec.replicas Changed kubectl scale"]),
    ("replicas changed", deployment, patch({"spec": {"replicas": 5}}), "Ownership", [".spec.replicas Changed kubectl-edit"]),
    ("replicas left out", deployment, put(lambda it: it["spec"].pop("replicas")), "Ownership", [".spec.replicas Changed kubectl-replace"]),
    ("image changed", deployment, strategic(containers(image="web:2")), "Ownership", [f"{C}.image Changed kubectl-edit"]),
    ("env changed", deployment, strategic(containers(env=[{"name": "A", "value": "9"}])), "Ownership", [f"{C}.env[name=A].value Changed kubectl-edit"]),
    ("env added", deployment, strategic(containers(env=[{"name": "C", "value": "9"}])), "Generation", []),
    ("env removed", deployment, strategic(containers(env=[{"name": "B", "$patch": "delete"}])), "Ownership", [f"{C}.env[name=B] Removed"]),
    ("env reordered", deployment, put(lambda it: it["spec"]["template"]["spec"]["containers"][0]["env"].reverse()), "Generation", [f"{C}.env Changed fairlead/b-shop"]),
    ("argument added", deployment, strategic(containers(args=["a", "b"])), "Ownership", [f"{C}.args Changed kubectl-edit"]),
    ("command added", deployment, strategic(containers(command=["x"])), "Generation", []),
    ("limits added", deployment, strategic(containers(resources={"limits": {"cpu": "1"}})), "Generation", []),
    ("port added", deployment, strategic(containers(ports=[{"containerPort": 81}])), "Generation", []),
    ("sidecar added", deployment, strategic({"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "p"}]}}}}), "Generation", []),
    ("toleration added", deployment, patch({"spec": {"template": {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}}}}), "Ownership", [".spec.template.spec.tolerations Changed kubectl-edit"]),
    ("node selector extended", deployment, patch({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}), "Ownership", [".spec.template.spec.nodeSelector Changed kubectl-edit"]),
    ("node selector removed", deployment, patch({"spec": {"template": {"spec": {"nodeSelector": None}}}}), "Ownership", [".spec.template.spec.nodeSelector Removed"]),
    ("host network", deployment, patch({"spec": {"template": {"spec": {"hostNetwork": True}}}}), "Generation", []),
    ("rollout restart", deployment, patch({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}}), "Generation", []),
    ("bundle label removed", config_map, patch({"metadata": {"labels": {"fairlead/bundle": None}}}), "LeftSelector", ['.metadata.labels Removed']),
]


def main():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}
    call("PATCH", f"/api/v1/namespaces/{NS}?fieldManager=record", namespace, APPLY)
    records = []
    for name, make, edit, observation, fields in EDITS:
        manifest = make()
        path = PATHS[manifest["kind"]]
        answer = call("PATCH", f"{path}?fieldManager={MANAGER}", manifest, APPLY)
        edit(path, call("GET", path))
        live = call("GET", path)
        dry_run = call("PATCH", f"{path}?fieldManager={MANAGER}&force=true&dryRun=All", manifest, APPLY)
        records.append({"name": name, "answer": answer, "live": live, "dryRun": dry_run, "observation": observation, "fields": fields})
        call("DELETE", path)
        time.sleep(0.2)
    call("DELETE", f"/api/v1/namespaces/{NS}")
    print("[")
    print(",\n".join(json.dumps(it, separators=(",", ":")) for it in records))
    print("]")


main()
