#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator does, by a client that was made from the description of the API.

usage: api_client.py SOCKET      with the client's package `gabion_client` on PYTHONPATH
"""

import sys
import time

import httpx
from gabion_client import Client
from gabion_client.api.cluster import cluster_set, cluster_show
from gabion_client.api.deleted_volumes import deleted_volume_list, volume_purge, volume_undelete
from gabion_client.api.policies import policy_create, policy_list
from gabion_client.api.shards import scrub_start, scrub_status, shard_list
from gabion_client.api.status import status
from gabion_client.api.volumes import (
    volume_create,
    volume_delete,
    volume_explain,
    volume_grow,
    volume_label,
    volume_list,
    volume_set_policy,
    volume_show,
)
from gabion_client.models import (
    ClusterSetBody,
    PolicyCreateBody,
    PolicyRules,
    Problem,
    ScrubStartBody,
    VolumeCreateBody,
    VolumeGrowBody,
    VolumeLabelBody,
    VolumeSetPolicyBody,
    VolumeUndeleteBody,
)

MIB = 1 << 20


def until(is_so):
    """A shard lists what was changed when the directory has told it."""
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def operate(client):
    """Everything must be answered as it is described: a type that does not fit raises an error."""

    def done(call, *args, **rest):
        answer = call.sync_detailed(*args, client=client, **rest)
        assert answer.status_code == 200, (call.__name__, answer.content)
        return answer.parsed

    def refused(code, call, *args, **rest):
        answer = call.sync_detailed(*args, client=client, **rest)
        assert answer.status_code == code, (call.__name__, answer.status_code, answer.content)
        assert isinstance(answer.parsed, Problem) and answer.parsed.status == code, answer.parsed
        return answer.parsed.detail

    for number in range(5):
        name = f"api{number}"
        made = done(volume_create, body=VolumeCreateBody(name=name, size_bytes=8 * MIB, ftt=1))
        assert made.name == name and len(made.components) == 2, made
    assert "api0" in refused(409, volume_create, body=VolumeCreateBody(name="api0", size_bytes=8 * MIB, ftt=1))
    assert "size" in refused(400, volume_create, body=VolumeCreateBody(name="x", size_bytes=1, ftt=1))

    page = done(volume_list, limit=2)
    assert ([one.name for one in page.items], page.total, page.next_) == (["api0", "api1"], 5, "api1")
    page = done(volume_list, limit=100, after=page.next_)
    assert ([one.name for one in page.items], page.next_) == (["api2", "api3", "api4"], None)

    assert done(volume_grow, "api0", body=VolumeGrowBody(size_bytes=16 * MIB)).size_bytes == 16 * MIB
    assert "smaller" in refused(400, volume_grow, "api0", body=VolumeGrowBody(size_bytes=8 * MIB))
    labels = VolumeLabelBody.from_dict({"set": {"env": "test"}})
    done(volume_label, "api0", body=labels)
    assert [one.name for one in done(volume_list, label="env=test").items] == ["api0"]
    assert done(volume_explain, "api0") is not None

    done(policy_create, body=PolicyCreateBody(name="one-copy", rules=PolicyRules(ftt=0)))
    until(lambda: {policy.name for policy in done(policy_list)} == {"default", "one-copy"})
    done(volume_set_policy, "api1", body=VolumeSetPolicyBody(policy="one-copy"))
    assert done(volume_show, "api1").ftt == 0

    done(cluster_set, body=ClusterSetBody(repair_delay_seconds=77))
    until(lambda: done(cluster_show).repair_delay_seconds == 77)

    done(volume_delete, "api2")
    trash = done(deleted_volume_list, name="api2").items
    assert len(trash) == 1, trash
    assert done(volume_undelete, trash[0].id, body=VolumeUndeleteBody(name="back")).name == "back"
    done(volume_delete, "api3")
    done(volume_purge, "api3")
    assert done(deleted_volume_list).total == 0

    shard = done(shard_list).items[0].name
    done(scrub_start, shard, body=ScrubStartBody())
    assert done(scrub_status, shard)
    assert "there are: host1" in refused(404, scrub_status, "nobody")
    assert "gabion volume list" in refused(404, volume_show, "nobody")

    report = done(status)
    assert len(report.hosts) == 3 and len(report.volumes) == 4, report


def main():
    """Asks through a Unix socket."""
    transport = httpx.HTTPTransport(uds=sys.argv[1])
    with Client(base_url="http://gabion", timeout=httpx.Timeout(120), httpx_args={"transport": transport}) as client:
        operate(client)


if __name__ == "__main__":
    main()
