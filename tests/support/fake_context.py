"""A CUDA context of host memory: does in Python what the kernels do on a GPU, so that the host side is tested alone."""

from types import SimpleNamespace

import numpy as np

from gpudissect.device.cuda.chase.runner import ChaseRunner
from gpudissect.device.cuda.context import LaunchBuffers
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.layout import CHAIN, JOB, PRIOR, PRIOR_PATHS, REPORT, TRAITS, UNCHAINED, ChainKind
from gpudissect.device.cuda.links import Arenas
from gpudissect.device.cuda.memory import Arena
from gpudissect.units import KIB, MIB
from gpudissect.workload import Path
from gpudissect.workload.order import permutation

BASE = 0x7F00_0000_0000
LOW_32 = 0xFFFFFFFF
CHAIN_IN_SHARED = {"PATH_SHARED": 4, "PATH_CLUSTER": 8}
"""Paths whose chain is copied to shared memory, and the bytes of a link."""
UNCHAINED_MACROS = [TRAITS[path].macro for path in UNCHAINED]
SMS, SHARED_PER_SM, SHARED_RESERVED, THREADS_PER_SM = 4, 64 * KIB, KIB, 2048
PROPERTIES = dict.fromkeys(("warp_size", "max_blocks_per_multiprocessor"), 32)
PROPERTIES |= dict.fromkeys(("total_constant_memory", "max_registers_per_multiprocessor"), 64 * KIB)
PROPERTIES |= {"multiprocessor_count": SMS, "l2_cache_size": MIB, "maximum_texture1d_linear_width": 1 << 27}
PROPERTIES |= {"max_threads_per_multiprocessor": THREADS_PER_SM, "max_threads_per_block": 1024}
PROPERTIES |= {"max_shared_memory_per_multiprocessor": SHARED_PER_SM, "max_shared_memory_per_block": 48 * KIB}
PROPERTIES |= {"max_registers_per_block": 32 * KIB, "max_grid_dim_x": 2**31 - 1, "max_persisting_l2_cache_size": 0}
PROPERTIES |= dict.fromkeys(("global_l1_cache_supported", "local_l1_cache_supported", "cooperative_launch"), True)
PROPERTIES |= {"concurrent_kernels": False, "compute_mode": 0}
PROPERTIES |= {"reserved_shared_memory_per_block": SHARED_RESERVED, "ecc_enabled": True}
PROPERTIES |= {"clock_rate": 1_980_000, "memory_clock_rate": 3_200_000, "global_memory_bus_width": 512}


class FakeKernel:
    function = 5

    def __init__(self, name, macros):
        self.name, self.macros = name, macros
        self.shared = self.carveout = -1
        self.any_cluster = False

    def configure(self, *, shared, carveout):
        self.shared, self.carveout = shared, carveout
        return carveout

    def allow_any_cluster(self):
        self.any_cluster = True


class FakePeers:
    """Calls of a driver that reach the memory of other GPUs; `fail` is one that fails, with `status`."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED=704)

    def __init__(self, context):
        self._context = context
        self.log = []
        self.fail, self.status = "", 1

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.log.append((name, *arguments))
            status = self.status if name == self.fail else 0
            results = {
                "cuDriverGetVersion": lambda: 13000,
                "cuDevicePrimaryCtxRetain": lambda number: 100 + number,
                "cuMemAlloc": self._context.allocate,
                "cuEventCreate": lambda _: len(self.log),
                "cuEventElapsedTime": lambda first, last: 0.5 * (last - first),
                "cuGetErrorName": lambda _: b"ERROR",
                "cuGetErrorString": lambda _: b"an error",
            }
            return (status, results[name](*arguments)) if name in results else (status,)

        return call


class FakeContext:
    """Cycles are 30 + (a number by lap and position); `tamper` may change results before the download."""

    def __init__(self, size=1 << 30):
        self.index = 0
        self.device = SimpleNamespace(name="fake", uuid="1", pci_bus_id="0000:00:00.0")
        self.properties = SimpleNamespace(**PROPERTIES)
        self.capability = (9, 0)
        self.max_shared_bytes = SHARED_PER_SM - SHARED_RESERVED
        self.compiler = SimpleNamespace(version="0.0", arch="sm_00", folder=None, has=lambda *code: len(code) == 2)
        self.driver = FakePeers(self)
        self.memory = np.zeros(size, np.uint8)  # the system allocates pages only where something is written
        self.results = 0
        self._end = 0
        self.bank = self.allocate(65536)
        self.launches = []
        self.shared_requests = []
        self.threads = []
        self.prior = []
        self.kernels = {}
        self.loaded = []
        self.tamper = None
        self.sms = lambda block: block
        self.lost = self.has_timed_out = False
        self._textures = {}

    def ignore(self, *_):
        """What has no effect on memory."""

    def mark(self):
        return len(self.launches)

    def host_bytes(self, address, size):
        return self.bytes_at(address, size)

    def peers(self):
        return (1,)

    def address_of(self, number):
        return "0000:00:00.0"

    def atomic_peers(self, peers):
        return peers

    activate = free = free_host = wait = wait_for = wait_until_cleared = close = l2_fetch_limit = ignore

    def bytes_at(self, address, size):
        return self.memory[address - BASE : address - BASE + size]

    def free_memory(self):
        return self.memory.size, self.memory.size

    def allocate(self, size):
        address = BASE + self._end
        self._end += -(-size // 256) * 256
        assert self._end <= self.memory.size
        return address

    allocate_host = allocate

    def kernel(self, source, name, *macros):
        return self.kernels.setdefault((source, name, *macros), FakeKernel(name, macros))

    def load(self, *code):
        self.loaded.append(code)

    def symbol(self, name, source, *macros):
        assert name == "bank"
        return self.bank

    def upload(self, address, data):
        self.bytes_at(address, data.nbytes)[:] = np.ascontiguousarray(data).view(np.uint8).ravel()

    def fill_zeros(self, address, size):
        self.bytes_at(address, size)[:] = 0

    def copy(self, target, source, size):
        self.bytes_at(target, size)[:] = self.bytes_at(source, size)

    copy_to_host = copy

    def download(self, address, size):
        return self.bytes_at(address, size).copy()

    def create_texture(self, address, size, width=4):
        self._textures[77] = address
        return 77

    def max_active_clusters(self, kernel, size, block, shared):
        return SMS // size

    def max_active_blocks(self, kernel, block, shared):
        return min(SHARED_PER_SM // (shared + SHARED_RESERVED), THREADS_PER_SM // block)

    def is_lost(self):
        return self.lost

    def launch(self, kernel, grid, block, shared, *arguments, cluster=1):
        self.launches.append(kernel.name)
        if kernel.name == "write_starts":
            self._write_starts(*arguments)
        elif kernel.name == "write_chains":
            for chain in self.view(arguments[0], CHAIN, grid[1]):
                if chain["count"]:
                    self._write_chain(chain)
        elif kernel.name == "mark_picks":
            for chain in self.view(arguments[0], CHAIN, grid[1]):
                self._mark_picks(chain)
        elif kernel.name.startswith("chase_"):
            assert grid[0] % cluster == 0 and kernel.any_cluster == (cluster > 1)
            self.shared_requests.append(shared)
            self.threads.append(block)
            self._run_chases(kernel, grid[0], block, shared, *arguments, one_job=cluster > 1)
            if self.tamper:
                self.tamper(self)

    def view(self, address, dtype, count):
        return self.bytes_at(address, count * np.dtype(dtype).itemsize).view(dtype)

    def _run_chases(self, kernel, blocks, threads, shared, jobs_at, texture, one_job):
        on_sm = "ON_SM" in kernel.macros
        jobs = self.view(jobs_at, JOB, 1 if one_job or on_sm or "PRIOR" in kernel.macros else blocks)
        for prior in self.view(int(jobs[0]["prior"]), PRIOR, int(jobs[0]["prior_count"])):
            assert prior["sm"] < blocks and 32 * prior["warp"] + prior["threads"] <= threads
            self.run_prior(prior, texture)
            if on_sm:
                prior["actual_sm"] = prior["sm"]
        if on_sm:
            for block in range(blocks):
                if jobs[0]["laps"] and self.sms(block) == jobs[0]["sm"] and not jobs[0]["taken"]:
                    jobs[0]["taken"] = 1
                    self._chase(kernel, jobs[0], block, shared, texture)
            return
        for block, job in enumerate(jobs):
            if job["laps"]:
                self._chase(kernel, job, block, shared, texture)

    def _offsets(self, chain):
        count = int(chain["count"])
        if chain["kind"] == ChainKind.EXPLICIT:
            return self.view(int(chain["table"]), np.int64, count)
        shuffled = chain["kind"] == ChainKind.SHUFFLED
        positions = permutation(count, int(chain["seed"])) if shuffled else np.arange(count)
        return int(chain["start"]) + positions * int(chain["stride"])

    def _word(self, address, size):
        return self.view(address, f"u{size}", 1)

    def _write_chain(self, chain):
        offsets = self._offsets(chain)
        chain["first"] = int(chain["origin"]) + (int(offsets[0]) >> int(chain["shift"]))
        mark = 0 if chain["picks"] else int(chain["mark"])
        for offset, following in zip(offsets, np.roll(offsets, -1), strict=True):
            link = (int(chain["origin"]) + (int(following) >> int(chain["shift"]))) | mark
            self._word(int(chain["region"]) + int(offset), int(chain["link_bytes"]))[0] = link

    def _write_starts(self, address, number, starts, threads):
        chain = self.view(address + number * CHAIN.itemsize, CHAIN, 1)[0]
        positions = np.cumsum([0, *(len(part) for part in np.array_split(np.arange(chain["count"]), threads))])[:-1]
        links = int(chain["origin"]) + (self._offsets(chain)[positions] >> int(chain["shift"]))
        self.view(starts, np.uint64, threads)[:] = links

    def _mark_picks(self, chain):
        offsets = self._offsets(chain)
        picks = self.view(int(chain["picks"]), np.uint32, int(chain["pick_count"])) if chain["picks"] else ()
        for position in picks:
            word = self._word(int(chain["region"]) + int(offsets[position]), int(chain["link_bytes"]))
            word[0] |= int(chain["mark"])

    def _load(self, path, link, texture):
        if path == "PATH_TEXTURE":
            return int(self._word(self._textures[texture] + 4 * link, 4)[0])
        if path == "PATH_CONSTANT":
            return int(self._word(self.bank + link, 4)[0])
        return int(self._word(link, 8)[0])

    def run_prior(self, prior, texture):
        traits = TRAITS[PRIOR_PATHS[prior["path"]]]
        prior["done"], prior["actual_sm"] = 1, self.sms(int(prior["sm"]))
        if traits is TRAITS[Path.CODE]:
            self.prior.append((traits.macro, int(prior["count"]) * int(prior["laps"])))
            return
        count, laps, threads = (int(prior[name]) for name in ("count", "laps", "threads"))
        firsts = self.view(int(prior["starts"]), np.dtype(np.uint64), threads).tolist()
        for thread, first in enumerate(firsts):
            for _ in range(laps):
                link = first
                for _ in range(count // threads + (thread < count % threads)):
                    link = self._load(traits.macro, link, texture) & ~traits.mark
                prior["broken"] |= link != firsts[(thread + 1) % threads]
        self.prior.append((traits.macro, count * laps))

    def _chase(self, kernel, job, block, shared, texture):
        path = kernel.macros[0]
        count, laps, slots = int(job["count"]), int(job["laps"]), int(job["slots"])
        assert int(job["slots_offset"]) + 8 * (slots + 1) <= shared
        base = {"PATH_SHARED": 0x400, "PATH_CLUSTER": 0x7E00_0100_0400}.get(path, 0)
        mark = 1 << 31 if path == "PATH_TEXTURE" else 1
        records = np.zeros(slots + 1, np.uint64)
        start = 0 if path in UNCHAINED_MACROS else int(self._word(int(job["start"]), 8)[0])
        link, number = start + base, int(job["first"])

        def record(value, counted=True):
            nonlocal number
            records[min(max(number, 0), slots)] = value
            number += counted

        for lap in range(laps):
            for position in range(count):
                cycles = 30 + (lap * count + position) % 1000
                if path in CHAIN_IN_SHARED:
                    assert link - base < int(job["chain_bytes"]) <= int(job["slots_offset"])
                    link = int(self._word(int(job["chain"]) + link - base, CHAIN_IN_SHARED[path])[0]) + base
                elif path not in UNCHAINED_MACROS:
                    link = self._load(path, link, texture)
                if kernel.name == "chase_each":
                    record(cycles << 32 | (link & LOW_32), bool(link & mark) or path == "PATH_NOTHING")
                    link &= ~mark
            if kernel.name == "chase_lap":
                record((1 << 33) + lap)
            elif kernel.name == "chase_count":
                record(lap << 32 | count // 2)
        self.results = int(job["results"])
        report = self.view(self.results, REPORT, 1)[0]
        report["start"], report["end"], report["base"] = start, link - base, base
        report["sm"] = self.sms(block)
        report["peer_sm"] = self.sms(int(job["peer"])) if path == "PATH_CLUSTER" else 0
        report["cycles"], report["ns"] = 198_000, 100_000
        self.view(self.results + REPORT.itemsize, np.uint64, slots)[:] = records[:slots]


def parts(context):
    """The context, and launch buffers on it."""
    return context, LaunchBuffers(context)


def arenas(context, limit):
    """Memory of the GPU, of the host and of GPU 1."""
    return Arenas(Arena(context, limit), context, limit, (1,))


def chase_runner(context):
    return ChaseRunner(*parts(context), arenas(context, 1 << 25), texture_limit=1 << 25)


def fake_gpu(context):
    """The device on a fake context."""
    nothing = dict.fromkeys(("cores", "throttling", "other_processes", "close"), lambda: None)
    nvml = SimpleNamespace(
        driver=str, settings=dict, pcie=dict, nvlinks=dict, nvlink_peers=lambda peers, address_of: {}, **nothing
    )
    return CudaGpu(context, nvml)


def run_tasks(runner, contents):
    """The traces of tasks, as many on their way as the runner takes."""
    traces, queued = [], []

    def finish():
        oldest = queued.pop(0)
        traces.extend(runner.finish(oldest))
        runner.slots.free(oldest.memory)

    for each in contents:
        if len(queued) == runner.at_once:
            finish()
        queued.append(runner.queue(each))
    while queued:
        finish()
    return traces
