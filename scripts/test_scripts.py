# SPDX-License-Identifier: Apache-2.0
"""What the scripts conclude from what they read: `/usr/bin/python3 -m unittest discover -s scripts`."""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import unittest

import account
import bench
import cluster
import delete_pause
import device_pattern
import licences
import lost_host
import measure
import plot
import requests_curve
import slow_joiner
import tiers
import timeline
import verifier


class Told(unittest.TestCase):
    def test_a_client_is_told_of_in_milliseconds(self):
        write = {"iops": 999.7, "clat_ns": {"max": 302e6, "percentile": {"50.000000": 259e3, "99.000000": 4489e3}}}
        self.assertEqual(
            lost_host.told({"write": write}), "1000 writes/s, p50 0.26 ms, p99 4.49 ms, longest 302 ms"
        )


class Parsing(unittest.TestCase):
    def test_probe_lines_are_read_and_the_heading_is_not(self):
        text = (
            "rw          qd     iops  mean_us   p99_us   cpu_us    fio\n"
            "randwrite    1     3136      311      445     60.2   0.21\n"
            "randread    32    64551      489     1020     10.1   0.80\n"
        )
        found = bench.parse_probe(text)
        self.assertEqual(sorted(found), [("randread", 32), ("randwrite", 1)])
        self.assertEqual(found[("randwrite", 1)].iops, 3136)
        self.assertEqual(found[("randread", 32)].cpu_us, 10.1)

    def test_a_pause_is_a_row_of_empty_intervals(self):
        slots = [1000] * 10 + [0] * 5 + [2000] * 10
        lines = [f"{(n + 1) * bench.LOG_MSEC}, {iops}, 1, 0, 0" for n, iops in enumerate(slots)]
        self.assertEqual(bench.parse_iops_log(lines, 800), (2000, 5 * bench.LOG_MSEC))
        # An interval that fio left out is as empty as one with a zero.
        lines = [line for line in lines if " 0, 1," not in line]
        self.assertEqual(bench.parse_iops_log(lines, 800)[1], 5 * bench.LOG_MSEC)
        self.assertEqual(bench.parse_iops_log([], 0), (0.0, 0.0))

    def test_a_case_is_met_only_when_all_that_was_asked_was_measured_and_met(self):
        case = next(case for case in bench.CASES if case.name == "steady-8g")
        good = bench.Figures(20000, 1600, 2900, 90, cpu_us=21, pause_ms=45)
        self.assertEqual(bench.judge(case, good, 0.56)[1], "yes")
        self.assertEqual(bench.judge(case, good, 0.54)[1], "no")
        self.assertEqual(bench.judge(case, good, None)[1], "-")
        good.pause_ms = 51
        self.assertEqual(bench.judge(case, good, 0.56)[1], "no")
        good.pause_ms, good.p99_us = 45, 3001
        self.assertEqual(bench.judge(case, good, 0.56)[1], "no")
        self.assertEqual(bench.judge(case, None, None)[1], "-")
        case = next(case for case in bench.CASES if case.as_many_as)
        self.assertTrue(any(other.name == case.as_many_as for other in bench.CASES))
        self.assertEqual(bench.judge(case, good, None, good.iops)[1], "yes")
        self.assertEqual(bench.judge(case, good, None, good.iops + 1)[1], "no")
        self.assertEqual(bench.judge(case, good, None)[1], "-")


    def test_the_largest_volume_leaves_room_and_its_pages_are_twenty_times_what_is_in_memory(self):
        for free_gib in (60, 73, 100, 1000):
            gib = bench.paged_gib(free_gib * bench.GIB)
            self.assertLessEqual(3 * (gib + 1 + 4) + 20, free_gib)
            pages = gib * 1024 // 3
            self.assertAlmostEqual(pages * 4096 / bench.paged_bytes(gib), 20, delta=0.2)
            self.assertGreaterEqual(bench.paged_bytes(gib), 512 << 10, "the least that a host may be told")
        with self.assertRaises(bench.Failure):
            bench.paged_gib(58 * bench.GIB)

    def test_a_budget_of_pages_goes_into_the_table_that_is_there(self):
        text = 'name = "host1"\n\n[memory]\nmachine_percent = 16\n\n[tuning]\n'
        told = bench.with_checksum_bytes(text, 524288)
        self.assertIn("[memory]\nchecksum_bytes = 524288\nmachine_percent = 16\n", told)
        self.assertEqual(bench.with_checksum_bytes(told, 524288), told)
        self.assertTrue(bench.with_checksum_bytes('name = "host1"\n', 1).endswith("[memory]\nchecksum_bytes = 1\n"))


class DevicePattern(unittest.TestCase):
    def test_the_search_finds_the_rate_to_a_twentieth(self):
        for limit in (8000, 9000, 20000, 33333, 63000):
            rate, answer = device_pattern.highest(lambda rate, limit=limit: (rate <= limit, rate / 100))
            self.assertLessEqual(rate, limit)
            self.assertGreater(rate * 1.08, limit)
            self.assertEqual(answer, rate / 100)
        self.assertEqual(device_pattern.highest(lambda rate: (False, 1.0)), (0, 0.0))
        self.assertEqual(device_pattern.highest(lambda rate: (True, 1.0))[0], device_pattern.RATES[1])

    def test_the_slowest_job_decides(self):
        wanted = device_pattern.jobs("/f", 10000)
        self.assertEqual(wanted["destage1"][2], 9300)

        def side(name, part):
            kind = "read" if name.startswith("back") else "write"
            got = {"iops": wanted[name][2] * part, "clat_ns": {"mean": 200_000}}
            return {"jobname": name, "read": {"iops": 0}, "write": {"iops": 0}, kind: got}

        for part, is_kept in ((0.96, True), (0.94, False)):
            result = {"jobs": [side(name, part if name == "back0" else 1) for name in wanted]}
            self.assertEqual(device_pattern.kept_up(wanted, result), (is_kept, 200.0))

    def test_the_slowest_commit_of_any_host_is_its_pause(self):
        slow = {"log0": 3e6, "log1": 41e6, "destage0": 900e6}
        jobs = [{"jobname": name, "write": {"clat_ns": {"max": most}}} for name, most in slow.items()]
        self.assertEqual(device_pattern.slowest_ms({"jobs": jobs}), 41)


class Licences(unittest.TestCase):
    def test_what_is_linked_is_what_is_neither_for_tests_nor_for_the_build(self):
        def dep(name, *kinds):
            return {"pkg": name, "dep_kinds": [{"kind": kind} for kind in kinds]}

        deps = {"cli": [dep("a", None), dep("t", "dev")], "a": [dep("b", "build", None), dep("c", "build")]}
        nodes = [{"id": name, "deps": deps.get(name, [])} for name in ("cli", "a", "b", "c", "t")]
        metadata = {"resolve": {"nodes": nodes}, "packages": [{"id": it["id"], "name": it["id"]} for it in nodes]}
        self.assertEqual(licences.linked(metadata, "cli"), {"cli", "a", "b"})

    def test_a_text_that_several_have_is_printed_once_with_all_of_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("LICENSE-MIT", "licence.txt", "NOTICE", "main.rs"):
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(f"of {name[:6].lower()}  \n")
            found = list(licences.texts(folder))
        self.assertEqual(found, ["of licens", "of notice", "of licenc"])
        lines = licences.report([("b", "1", "MIT", ["one"]), ("a", "2", "Zlib", ["one", "two"])])
        self.assertEqual([line for line in lines if line.startswith("Of ")], ["Of a, b:", "Of a:"])
        self.assertIn("  a 2: Zlib", lines)


class Account(unittest.TestCase):
    class Counted:
        """A moment that a test made up."""

        def __init__(self, stages, requests, run_queue=0.0):
            self.stages, self.requests, self.run_queue = stages, requests, run_queue

    def test_stages_of_all_hosts_count_by_what_each_measured(self):
        stage = {"stage": "append", "measured": 3, "mean_us": 10.0}
        other = {"stage": "append", "measured": 1, "mean_us": 50.0}
        status = {"writes": [{"host": "a", "stages": [stage]}, {"host": "b", "stages": [other]}]}
        self.assertEqual(account.stages_of(status), {"append": (4, 80.0)})

    def test_a_mean_is_of_what_was_measured_in_between(self):
        before = self.Counted({"turn": (10, 100.0)}, {})
        after = self.Counted({"turn": (14, 300.0), "commit": (0, 0.0)}, {})
        self.assertEqual(account.stage_means(before, after), {"turn": 50.0})

    def test_what_the_hosts_did_not_count_is_told(self):
        before = self.Counted({}, {"blocks": 5, "commits": 0})
        after = self.Counted({}, {"blocks": 15, "commits": 2, "flushes": 1}, run_queue=0.001)
        text = account.text(before, after, 10, {"reads": 0.25, "writes": 1.5, "flushes": 0.3})
        self.assertIn("1.000 blocks, 0.200 commits, 0.100 flushes", text)
        self.assertIn("0.25 reads (+0.25), 1.50 writes (+0.30), 0.30 flushes (+0.00)", text)
        self.assertIn("waited 100.0 us for a processor", text)


class Tiers(unittest.TestCase):
    def options(self, *arguments):
        return tiers.options_of(["--tiers", *arguments])

    def test_a_row_for_each_load_and_set_and_a_dash_for_what_was_not_measured(self):
        options = self.options("--sets", "8,0.5", "--loads", "4K random read,4K random write")
        found = {("all-flash", "4K random read", 0.5): tiers.Figures(50000, 204.8, 0.6, 1.25, 9, fill=0.07)}
        lines = tiers.tiers_table(found, options).splitlines()
        self.assertEqual(len(lines), 2 + 4)
        self.assertEqual(lines[2], "| 4K random read | 0.5 x cache | 50,000 | 204.8 | 1.2 | 7 | - | - | - | - |")
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        # A plot of it has a place for each panel, drawn or not, and only what was measured in it.
        text = tiers.tiers_plot(found, options)
        self.assertEqual((text.count("\nplot "), text.count("\nset multiplot next")), (2, 2))
        self.assertIn("\n0.5 50000\n", text)

    def test_wrong_options_are_refused(self):
        with open(os.devnull, "w", encoding="ascii") as silence, contextlib.redirect_stderr(silence):
            for wrong in (["--kinds", "floppy"], ["--loads", "8M"], ["--sets", "a"], ["--cache", "63"], ["--pacing"]):
                with self.assertRaises(SystemExit):
                    self.options(*wrong)

    def test_steady_state_is_the_last_third_and_a_pause_no_longer_than_the_slowest_write(self):
        slots = [(n / 10, 900 if n < 21 else 300) for n in range(1, 31) if not 10 <= n < 15]
        figures = tiers.Figures(500, 2, 1, 5, worst_ms=650)
        run = tiers.Run(3000, figures, slots, [(n, 1.0) for n in range(30)], [], 0.0)
        self.assertEqual(run.pause_ms, 650)
        figures.worst_ms = 2000
        self.assertEqual(run.pause_ms, 700)
        self.assertGreater(run.steady_iops, 299)
        self.assertLess(run.steady_iops, 400)
        text = tiers.pacing_text(run, [run, run])
        self.assertEqual(len(text.splitlines()), 3)

    def test_a_gap_is_counted_between_first_and_last(self):
        self.assertEqual(measure.longest_gap({}), 0)
        self.assertEqual(measure.longest_gap({4: 1, 5: 0, 8: 2}), 3)
        self.assertEqual(measure.parse_log(["100, 7, 1", "x", "205, 8, 1"], 100), {1: 7, 2: 8})

    def test_settings_of_one_panel_end_with_it(self):
        panels = [plot.Panel("a", [plot.Line("l", [(1, 2)])], settings=["set logscale y"]), plot.Panel("b", [])]
        text = plot.script("t", panels, 2, 100, 100)
        places = ["set title 'a'", "set logscale y", "plot $line0", "set title 'b'"]
        self.assertEqual(places, sorted(places, key=text.index))
        self.assertLess(text.index("set title 'b'"), text.rindex("unset logscale"))


class Requests(unittest.TestCase):
    def test_each_ratio_is_a_row_with_its_region_and_a_point_of_each_curve(self):
        one = dict.fromkeys(["all", *requests_curve.KINDS], 1.5)
        rows = requests_curve.table([(0.1, one), (20, one)])
        self.assertEqual(len(rows), 4)
        self.assertTrue(rows[2].startswith("| 0.1 | 1 GiB | **1.500** |"), rows[2])
        self.assertTrue(rows[3].startswith("| 20 | 240 GiB |"), rows[3])
        text = requests_curve.plot([(0.1, one), (20, one)])
        self.assertIn("20 1.15", text)
        self.assertEqual(text.count("\n20 1.5\n"), 5)


def content(path):
    with open(path, encoding="ascii") as file:
        return file.read()


class Timeline(unittest.TestCase):
    def test_a_phase_has_the_requests_that_ended_in_it_and_pauses_reach_its_ends(self):
        phase = timeline.Phase("during", 100.0, 110.0)
        requests = [(99.9, 500.0, 4096), *((103 + n / 100, n + 1, 4096) for n in range(400)), (110.0, 900.0, 4096)]
        seen = timeline.latencies(requests, phase)
        self.assertEqual((seen.requests, seen.max_ms), (400, 400))
        self.assertEqual((seen.p50_ms, seen.p99_ms), (201, 397))
        # The longest is the one at the end: from 106.99 on nothing came.
        self.assertEqual(round(seen.pause_ms), 3010)
        self.assertIsNone(timeline.latencies(requests, timeline.Phase("none", 200, 201)))
        self.assertEqual(timeline.by_second([(5.2, 3.0, 10**6), (5.9, 1.0, 10**6)], 4.0), [(1, [1.0, 3.0], 2.0)])

    def test_logs_of_single_requests(self):
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
            file.write("1795380895799, 2045426, 1, 4096, 0\n1795380895795, 8061566, 1, 1048576, 0\n")
            file.flush()
            found = timeline.fio_requests(file.name)
            self.assertEqual(found, [(1795380895.795, 8.061566, 1048576), (1795380895.799, 2.045426, 4096)])
            file.write("what\n")
            file.flush()
            with self.assertRaises(cluster.Failure):
                timeline.fio_requests(file.name)

    def test_hosts_by_their_processes(self):
        self.assertEqual(timeline.host_of("gabion daemon --config /a/host12/host.toml --leash /a/l"), "host12")
        self.assertIsNone(timeline.host_of("gabion up --background --data /a/host1"))
        self.assertGreater(timeline.status_bytes(os.getpid(), "VmHWM"), 1 << 20)

    def test_sizes_of_volumes_to_delete(self):
        self.assertEqual(delete_pause.bytes_of("1T"), 1 << 40)
        self.assertEqual(delete_pause.bytes_of("1.5GiB"), 3 << 29)
        for wrong in ("1", "1K", "x", "1TB"):
            with self.assertRaises(argparse.ArgumentTypeError):
                delete_pause.bytes_of(wrong)

    def test_the_worst_is_a_pause_or_a_request(self):
        phase = timeline.Phase("deleting", 0.0, 1.0)
        seen = timeline.latencies([(n / 100, 60.0 if n == 50 else 2.0, 4096) for n in range(100)], phase)
        self.assertEqual(delete_pause.worst_ms(seen), 60.0)

    def test_a_host_is_made_late_and_again_as_it_was(self):
        with tempfile.NamedTemporaryFile("w+", encoding="ascii") as file:
            before = "[tuning]\nstall_ms = 2000\n"
            file.write(before)
            file.flush()
            slow_joiner.slow_down(file.name, 100, 70000)
            slow_joiner.slow_down(file.name, 200, 80000)
            text = content(file.name)
            self.assertEqual(text.count("[tuning.late]"), 1)
            self.assertIn("latency_us = 200\nbytes_per_second = 80000\n", text)
            slow_joiner.slow_down(file.name, None, None)
            self.assertEqual(content(file.name), before)


class Verdicts(unittest.TestCase):
    def test_only_an_allowed_write_passes(self):
        self.assertEqual(verifier.verdict(7, verifier.content(7, 5), [4, 5]), (5, None))
        self.assertEqual(verifier.verdict(7, bytes(4096), [0]), (0, None))
        for data in (verifier.content(7, 3), verifier.content(8, 5), bytes(4096)):
            found, fault = verifier.verdict(7, data, [4, 5])
            self.assertIsNone(found)
            self.assertIn("wrong", fault)

    def test_a_torn_block_is_told_apart(self):
        data = verifier.content(7, 4)[:512] + verifier.content(7, 5)[512:]
        self.assertIn("torn", verifier.verdict(7, data, [4, 5])[1])


class Processes(unittest.TestCase):
    def test_only_those_of_the_folder_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data")
            environment = dict(os.environ, GABION_DATA=data)
            # `sleep` under the name that is looked for.
            child = subprocess.Popen(["gabion", "60"], executable="/bin/sleep", env=environment)
            try:
                # The kernel shows the arguments of a new program a moment after it started.
                end = time.monotonic() + 5
                while not cluster.processes("gabion", data) and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual(cluster.processes("gabion", data), [child.pid])
                self.assertEqual(cluster.processes("gabion", folder), [child.pid])
                self.assertEqual(cluster.processes("gabion", data + "2"), [])
                self.assertEqual(cluster.processes("etcd", data), [])
            finally:
                child.kill()
                child.wait()


if __name__ == "__main__":
    sys.exit(unittest.main())
