// Probes of the TLBs of an H200; `tlb_map.py` reads what they write.
//
//   nvcc -arch=sm_90 -O2 -std=c++17 -o tlb_map validation/tlb_map.cu -lcuda && ./tlb_map FOLDER [SEED]
//
// Takes nearly all memory of GPU 0 for a second. 2 MiB of physical memory, mapped at many addresses, then exceed the reach
// of the third TLB. All loads hit in the L2. The excess of a load is its latency minus that of a repeated load of the
// same line.
//
//   traces.txt    a line for each trace of random loads: number, pages, bytes from one page to the next, loads, then the
//                 addresses of the regions over which the pages are spread
//   loops.txt     a line for each trace of random loads from a few sets of the second TLB: its number, sets, pages of
//                 each set, loads, address of the first of all pages
//   trace_N.u16   excess of each load of trace N
//   sharing.u8    for two SMs: excess of the second one's load of a page that the first one loaded, after the second one
//                 lost it from its second TLB
//   sms.csv       by SM: excess of its load of a page that SM 0 loaded, after it was evicted from all TLBs; loads that
//                 miss after SM 0 loaded 13 pages of a set until none missed
//   pieces.csv    median excess of a load of another part of a page whose first 2 MiB were loaded: after it left the first TLB,
//                 and before

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <cuda.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define CHECK(call)                                                         \
    do {                                                                    \
        int error = (int)(call);                                            \
        if (error) {                                                        \
            fprintf(stderr, "line %d: CUDA error %d\n", __LINE__, error);   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

constexpr int SHARED_BYTES = 200 << 10;  // so that one block runs on each SM
constexpr u64 MIB = 1 << 20, PIECE = 2 * MIB, PAGE = 32 * MIB, LINE = 128, REGION_ALIGNMENT = 8ull << 30;
constexpr u32 LINES = 4, LAUNCH = 20000, LAUNCHES = 4, PAGES = 16384, REGION_PAGES = 2048, REPEATS = 3;
constexpr u32 PIECE_REPEATS = 31, WHOLE_PAGES = 1, FILLERS = 24;

__device__ volatile u32 sink;

__device__ bool is_elsewhere(u32 sm) {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number != sm;
}

// Bypasses the L1.
__device__ u32 load(u64 address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Latency of a load in cycles; see `l2_map.cu`.
__device__ u32 timed(u64 address) {
    __shared__ volatile u32 value, clocks[2];
    u32 before, after;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
    value = load(address);
    asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
    clocks[0] = before;
    clocks[1] = after;
    return after - before;
}

// For each page: the fastest of a few lines, and its minimum latency when repeated.
__global__ void choose(u32 sm, u32 pages, const u64* lines, u64* chosen, u16* cycles) {
    if (is_elsewhere(sm) || threadIdx.x) return;
    for (u32 i = 0; i < pages; i++) {
        u32 best = ~0u;
        for (u32 j = 0; j < LINES; j++) {
            u64 line = lines[i * LINES + j];
            u32 least = ~0u;
            sink = load(line);
            for (u32 k = 0; k < REPEATS; k++) least = min(least, timed(line));
            if (least < best) chosen[i] = line, best = least;
        }
        cycles[i] = min(best, 65535u);
    }
}

// Latencies of loads, one after the other.
__global__ void follow(u32 sm, const u64* list, u32 count, u16* out) {
    extern __shared__ u64 addresses[];
    u16* cycles = (u16*)(addresses + count);
    if (is_elsewhere(sm)) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) addresses[i] = list[i];
    __syncthreads();
    if (threadIdx.x == 0)
        for (u32 i = 0; i < count; i++) {
            u64 address = addresses[i];
            if (address == 0) sink = 0;  // waits for the address, so that the load below does not
            cycles[i] = min(timed(address), 65535u);
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[i] = cycles[i];
}

struct Region {
    u64 start;
    u32 pages;
};

int sms;
std::string folder;
std::mt19937_64 rng;
u64* list;
u16* results;

// As `tlb_map.py` computes it.
u64 hash(u64 number) {
    for (u64 factor : {0xff51afd7ed558ccdull, 0xc4ceb9fe1a85ec53ull}) number = (number ^ number >> 33) * factor;
    return (number ^ number >> 33) >> 20 & 0xffffffff;
}

std::vector<u16> run(const std::vector<u64>& addresses, u32 sm = 0) {
    std::vector<u16> cycles(addresses.size());
    for (size_t i = 0; i < addresses.size(); i += LAUNCH) {
        u32 count = std::min<size_t>(LAUNCH, addresses.size() - i);
        CHECK(cudaMemcpy(list, addresses.data() + i, count * 8, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(results, 0, count * 2));
        follow<<<sms, 128, SHARED_BYTES>>>(sm, list, count, results);
        CHECK(cudaMemcpy(cycles.data() + i, results, count * 2, cudaMemcpyDeviceToHost));
    }
    if (std::count(cycles.begin(), cycles.end(), 0)) fprintf(stderr, "no block ran on SM %u\n", sm), exit(1);
    return cycles;
}

struct Page {
    u64 line;
    int cycles;
};

// The line of each page that is used; `starts` are addresses of 2 MiB that are mapped.
std::vector<Page> pages_at(const std::vector<u64>& starts) {
    std::vector<u64> lines, chosen(starts.size());
    std::vector<u16> cycles(starts.size());
    for (u64 start : starts)
        for (u32 j = 0; j < LINES; j++) lines.push_back(start + rng() % (PIECE / LINE) * LINE);
    u64 *all, *best;
    CHECK(cudaMalloc(&all, lines.size() * 8));
    CHECK(cudaMalloc(&best, starts.size() * 8));
    CHECK(cudaMemcpy(all, lines.data(), lines.size() * 8, cudaMemcpyHostToDevice));
    choose<<<sms, 32, SHARED_BYTES>>>(0, starts.size(), all, best, results);
    CHECK(cudaMemcpy(chosen.data(), best, chosen.size() * 8, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(cycles.data(), results, cycles.size() * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(all));
    CHECK(cudaFree(best));
    std::vector<Page> pages;
    for (size_t i = 0; i < starts.size(); i++) pages.push_back({chosen[i], cycles[i]});
    return pages;
}

// Random loads of pages; `text` describes the trace.
void trace(const std::vector<Page>& pages, std::string file, std::string text) {
    static u32 number = 0;
    std::vector<u64> addresses;
    std::vector<int> excess;
    std::vector<u32> order;
    for (u64 i = 0; i < (u64)LAUNCHES * LAUNCH; i++) {
        order.push_back(hash(((u64)number << 40) + i) * pages.size() >> 32);
        addresses.push_back(pages[order.back()].line);
    }
    std::vector<u16> cycles = run(addresses);
    for (size_t i = 0; i < order.size(); i++)
        excess.push_back(std::min(std::max((int)cycles[i] - pages[order[i]].cycles, 0), 2047));
    std::vector<u16> kept(excess.begin(), excess.end());
    std::ofstream(folder + "/trace_" + std::to_string(number) + ".u16", std::ios::binary)
        .write((const char*)kept.data(), kept.size() * 2);
    std::ofstream(folder + "/" + file, std::ios::app) << number << " " << text << "\n";
    std::sort(excess.begin(), excess.end());
    printf("trace %u: %zu pages; excess", number, pages.size());
    for (double share : {0.05, 0.25, 0.5, 0.75, 0.95}) printf(" %d", excess[(size_t)(share * (excess.size() - 1))]);
    printf("\n");
    number++;
}

// Pages that lie `stride` bytes apart in one region, or in several of equal size.
void trace_regions(const std::vector<Region>& regions, u64 stride) {
    std::vector<u64> starts;
    std::string addresses;
    for (const Region& each : regions) {
        for (u32 i = 0; i < each.pages; i++) starts.push_back(each.start + i * stride);
        addresses += " " + std::to_string(each.start);
    }
    trace(pages_at(starts), "traces.txt",
          std::to_string(starts.size()) + " " + std::to_string(stride) + " " + std::to_string(LAUNCHES * LAUNCH) + addresses);
}

u32 second_set(u64 address) {
    u64 page = address / PAGE;
    return (page ^ page >> 8 ^ page >> 16) & 255;
}

int main(int argc, char** argv) {
    if (argc < 2) return fprintf(stderr, "usage: %s FOLDER [SEED]\n", argv[0]), 2;
    folder = argv[1];
    rng.seed(argc > 2 ? atoi(argv[2]) : 1);
    for (auto file : {"/traces.txt", "/loops.txt"}) remove((folder + file).c_str());
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    sms = properties.multiProcessorCount;
    for (auto kernel : {(void*)choose, (void*)follow})
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    CHECK(cudaMalloc(&list, LAUNCH * 8));
    CHECK(cudaMalloc(&results, 4 * MIB));

    // ordinary memory
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    u8* memory;
    u64 bytes = free_bytes - 512 * MIB;
    while (cudaMalloc(&memory, bytes) != cudaSuccess) bytes -= 256 * MIB, cudaGetLastError();
    u64 start = ((u64)memory + PAGE - 1) / PAGE * PAGE;
    u32 pages = ((u64)memory + bytes - start) / PAGE;
    printf("%s, %d SMs, %u pages of 32 MiB at %llx\n", properties.name, sms, pages, (unsigned long long)start);
    trace_regions({{start, 24}}, 16 * MIB);
    trace_regions({{start, 64}}, 8 * MIB);
    trace_regions({{start, 2600}}, PAGE);
    trace_regions({{start, pages}}, PAGE);
    CHECK(cudaFree(memory));

    // one piece of 2 MiB, mapped at the start and in the middle of each page; one page whole
    CUmemAllocationProp kind = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc access = {kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle piece;
    CHECK(cuMemCreate(&piece, PIECE, &kind, 0));
    auto map = [&](u64 address) {
        CHECK(cuMemMap(address, PIECE, 0, piece, 0));
        CHECK(cuMemSetAccess(address, PIECE, &access, 1));
    };
    CUdeviceptr base;
    CHECK(cuMemAddressReserve(&base, PAGES * PAGE, REGION_ALIGNMENT, 0, 0));
    for (u64 i = 0; i < PAGES; i++)
        for (u64 j = 0; j < PAGE; j += i < WHOLE_PAGES ? PIECE : PAGE / 2) map(base + i * PAGE + j);
    for (u32 count : {4096, 8192, 12288, 16384}) trace_regions({{base, count}}, PAGE);
    for (u32 count : {4096, 12288}) trace_regions({{base, 2 * count}}, PAGE / 2);
    std::vector<Region> regions = {{base, REGION_PAGES}};
    for (u32 bit = 40; bit < 47; bit++) {
        CUdeviceptr other;
        if (cuMemAddressReserve(&other, REGION_PAGES * PAGE, REGION_ALIGNMENT, base ^ 1ull << bit, 0) != CUDA_SUCCESS) continue;
        for (u64 i = 0; i < REGION_PAGES; i++) map(other + i * PAGE);
        regions.push_back({other, REGION_PAGES});
    }
    trace_regions(regions, PAGE);

    std::vector<u64> starts;
    for (u64 i = 0; i < PAGES; i++) starts.push_back(base + i * PAGE);
    std::vector<Page> all = pages_at(starts);
    std::vector<std::vector<u32>> sets(256);
    for (u32 i = 0; i < PAGES; i++) sets[second_set(starts[i])].push_back(i);
    auto page_of = [&](u32 set, u32 i) { return sets[set % sets.size()][i]; };
    const u32 loops[][2] = {{1, 14}, {1, 20}, {1, 24}, {1, 32}, {2, 12}, {2, 16}, {4, 9}, {4, 10}, {4, 12}, {8, 9}, {16, 12}};
    for (auto [count, each] : loops) {
        std::vector<Page> pages;
        for (u32 i = 0; i < count; i++)
            for (u32 j = 0; j < each; j++) pages.push_back(all[page_of(100 + 37 * i, j)]);
        trace(pages, "loops.txt",
              std::to_string(count) + " " + std::to_string(each) + " " + std::to_string(LAUNCHES * LAUNCH) + " " + std::to_string(base));
    }

    // which SMs share a TLB
    auto line = [&](u32 set, u32 i) { return all[page_of(set, i)].line; };
    std::vector<u64> evicting, fillers, every;
    for (u32 i = 0; i < FILLERS; i++) fillers.push_back(line(7 * i + 3, 0));
    for (u32 i = 0; i < 80; i++) evicting.push_back(line(100, 21 + i % 40));
    for (const Page& page : all) every.push_back(page.line);
    u64 loaded = line(100, 20);
    std::vector<u64> refill = fillers, thrice = {loaded, loaded, loaded};
    refill.push_back(loaded);
    std::vector<u8> sharing;
    for (int first = 0; first < sms; first++)
        for (int second = 0; second < sms; second++) {
            run(evicting, second);
            run(refill, first);
            std::vector<u16> cycles = run(thrice, second);
            sharing.push_back(std::min(std::max((int)cycles[0] - (int)std::min(cycles[1], cycles[2]), 0), 255));
        }
    std::ofstream(folder + "/sharing.u8", std::ios::binary).write((const char*)sharing.data(), sharing.size());

    std::vector<u64> lap, twice;
    for (u32 i = 0; i < 13; i++) lap.push_back(line(100, i)), twice.push_back(lap.back()), twice.push_back(lap.back());
    lap.insert(lap.end(), fillers.begin(), fillers.end());
    std::vector<u64> laps;
    for (u32 i = 0; i < 20; i++) laps.insert(laps.end(), lap.begin(), lap.end());
    std::ofstream csv(folder + "/sms.csv");
    csv << "sm,after_all_tlbs,misses_of_13\n";
    for (int sm = 0; sm < sms; sm++) {
        run(every, sm);
        run(every);  // the page is in no TLB
        run({loaded});
        std::vector<u16> cycles = run(thrice, sm);
        csv << sm << "," << (int)cycles[0] - (int)std::min(cycles[1], cycles[2]);
        run(laps);
        run(fillers, sm);
        cycles = run(twice, sm);
        u32 misses = 0;
        for (size_t i = 0; i < cycles.size(); i += 2) misses += cycles[i] > cycles[i + 1] + 50;
        csv << "," << misses << "\n";
    }

    // what an entry translates
    std::ofstream pieces(folder + "/pieces.csv");
    pieces << "piece,later,at_once\n";
    std::vector<u64> parts;
    for (u64 j = 0; j < PAGE; j += PIECE) parts.push_back(base + j);
    std::vector<Page> part = pages_at(parts);
    for (u32 j = 0; j < parts.size(); j++) {
        std::vector<int> excess[2];
        for (u32 repeat = 0; repeat < PIECE_REPEATS; repeat++) {
            run(every);  // the page is in no TLB
            std::vector<u64> order = {part[0].line};
            order.insert(order.end(), fillers.begin(), fillers.end());
            order.push_back(part[j].line);
            excess[0].push_back((int)run(order).back() - part[j].cycles);
            order = fillers;
            order.push_back(part[0].line);
            order.push_back(part[j].line);
            excess[1].push_back((int)run(order).back() - part[j].cycles);
        }
        for (auto& each : excess) std::sort(each.begin(), each.end());
        pieces << j << "," << excess[0][PIECE_REPEATS / 2] << "," << excess[1][PIECE_REPEATS / 2] << "\n";
    }
}
