// Probes of the L2 of an H200; `l2_map.py` reads what they write.
//
//   nvcc -arch=sm_90 -O2 -o l2_map validation/l2_map.cu && ./l2_map FOLDER [SEED [START_MIB]]
//
// START_MIB is where the allocation starts in physical memory, by default 528; `l2_map.py` finds it in `sets.u32`. It
// selects the lines of `copies.csv`.
//
// Takes nearly all memory of GPU 0 and a minute or two. Lines of 128 B are numbered from the start of the allocation.
//   pages.u32, hits.u8     random lines, 16 in a page; the least latency of a hit from each SM, less 150 cycles
//   sets.u32               for each set: number of lines, then lines that evict each other
//   orders.u8, cycles.u16  sequences in a set: position of the line in the set (+64: load with evict-first), latency
//   random.u32             random accesses of one thread, two bits each: 0 near, 1 other partition, 2 memory
//   copies.csv             how many of 3000 random ones of a list of lines hit near after all have been loaded

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));       \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

constexpr int SHARED_BYTES = 120 << 10;  // so that one block runs on each SM
constexpr u32 LINE = 128, PAGE_LINES = 16384, PAGES = 2048, LINES_IN_PAGE = 16, LAPS = 8;
u64 first_byte = 528ull << 20;  // physical address of the first line, which `l2_map.py` finds
constexpr u32 CANDIDATES = 3 << 19, SETS = 6, EVICTED = 385, REPEATS = 3, LENGTH = 4096;
constexpr u32 RANDOM_ACCESSES = 1 << 21, FAR = EVICTED, MEMORY = 500;  // cycles from which a load is not near, or from memory

__device__ volatile u32 sink;
__device__ u32 ran;

__device__ u32 sm() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// Whether this block is not on SM 0. (One block runs on each SM, if the GPU has nothing else to do.)
__device__ bool is_elsewhere() {
    if (sm()) return true;
    ran = 1;
    return false;
}

// Past the L1. The assembler merges weak loads of one address (`ld.global.cg`), but not relaxed ones.
__device__ u32 load(const u8* address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ u32 load_evict_first(const u8* address, u64 policy) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(address), "l"(policy)
                 : "memory");
    return value;
}

// Latency of a load in cycles. The store waits for its value, and the second clock is read after it. Both clocks are
// stored, too: otherwise the assembler may read one through the uniform datapath, which does not wait.
__device__ u32 timed(const u8* address, bool evict_first = false, u64 policy = 0) {
    __shared__ volatile u32 value, clocks[2];
    u32 before, after;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
    value = evict_first ? load_evict_first(address, policy) : load(address);
    asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
    clocks[0] = before;
    clocks[1] = after;
    return after - before;
}

__global__ void hits(const u8* memory, const u32* lines, u8* out) {
    is_elsewhere();  // all SMs work
    if (threadIdx.x) return;
    for (u32 i = 0; i < PAGES; i++) {
        u32 page = (i + sm() * (PAGES / gridDim.x)) % PAGES, least[LINES_IN_PAGE];
        for (u32 j = 0; j < LINES_IN_PAGE; j++) least[j] = ~0u;
        for (u32 lap = 0; lap < LAPS; lap++)
            for (u32 j = 0; j < LINES_IN_PAGE; j++) {
                u32 cycles = timed(memory + (u64)lines[page * LINES_IN_PAGE + j] * LINE);
                if (lap > 1) least[j] = min(least[j], cycles);
            }
        for (u32 j = 0; j < LINES_IN_PAGE; j++)
            out[((u64)sm() * PAGES + page) * LINES_IN_PAGE + j] = min(max((int)least[j] - 150, 0), 255);
    }
}

// Latency of a line after all of a list have been loaded, `REPEATS` times.
__global__ void evict(const u8* memory, u32 line, const u32* list, u32 count, u32* out) {
    if (is_elsewhere()) return;
    for (u32 i = 0; i < REPEATS; i++) {
        u32 sum = 0;
        if (threadIdx.x == 0) sink = load(memory + (u64)line * LINE);
        __syncthreads();
        for (u32 j = threadIdx.x; j < count; j += blockDim.x) sum += load(memory + (u64)list[j] * LINE);
        if (sum == 1) sink = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sink = load(memory + (u64)(line ^ PAGE_LINES / 2) * LINE);  // brings the translation of the page
            out[i] = timed(memory + (u64)line * LINE);
        }
        __syncthreads();
    }
}

// Which lines are evicted by the up to 32 lines of a set.
__global__ void members(const u8* memory, const u32* set, u32 count, const u32* lines, u32 total, u16* out) {
    if (is_elsewhere()) return;
    u32 lane = threadIdx.x;
    for (u32 i = 0; i < total; i++) {
        u32 sum = lane == 0 ? load(memory + (u64)lines[i] * LINE) : 0;
        for (u32 pass = 0; pass < 2; pass++) {
            __threadfence();  // one after the other: no address depends on an earlier load
            __syncwarp();
            if (lane < count) sum += load(memory + (u64)set[lane] * LINE);
        }
        if (sum == 1) sink = sum;
        __threadfence();
        __syncwarp();
        if (lane == 0) out[i] = min(timed(memory + (u64)lines[i] * LINE), 65535u);
        __syncwarp();
    }
}

__global__ void sequence(const u8* memory, const u32* lines, const u8* order, u16* out) {
    if (is_elsewhere() || threadIdx.x) return;
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    for (u32 i = 0; i < LENGTH; i++)
        out[i] = min(timed(memory + (u64)lines[order[i] & 63] * LINE, order[i] & 64, policy), 65535u);
}

// A 32-bit hash of a number (the finalizer of MurmurHash3); `l2_map.py` computes the same.
__device__ u32 hash(u64 number) {
    number ^= number >> 33;
    number *= 0xff51afd7ed558ccdull;
    number ^= number >> 33;
    number *= 0xc4ceb9fe1a85ec53ull;
    number ^= number >> 33;
    return (u32)(number >> 20);
}

// Random lines. Every second access prefers low numbers, so that some lines are hot.
__global__ void random_accesses(const u8* memory, u32 first, u32 count, u32* out) {
    if (is_elsewhere() || threadIdx.x) return;
    u32 word = 0;
    for (u32 i = 0; i < RANDOM_ACCESSES; i++) {
        u32 line = ((u64)hash(i + (1ull << 40)) * count) >> 32;
        if (i & 1) line = min(line, (u32)(((u64)hash(i + (1001ull << 40)) * count) >> 32));
        u32 cycles = timed(memory + (u64)(first + line) * LINE);
        word |= (cycles < FAR ? 0u : cycles < MEMORY ? 1u : 2u) << (2 * (i & 15));
        if ((i & 15) == 15) out[i >> 4] = word, word = 0;
    }
}

// How many of 3000 random lines of a list hit near after two passes of many threads over the list.
__global__ void copies(const u8* memory, const u32* list, u32 count, u32* out) {
    if (is_elsewhere()) return;
    for (u32 pass = 0; pass < 2; pass++) {
        u32 sum = 0;
        for (u32 j = threadIdx.x; j < count; j += blockDim.x) sum += load(memory + (u64)list[j] * LINE);
        if (sum == 1) sink = sum;
        __syncthreads();
    }
    if (threadIdx.x) return;
    u32 near = 0;
    for (u32 i = 0; i < 3000; i++) near += timed(memory + (u64)list[((u64)hash(i) * count) >> 32] * LINE) < FAR;
    *out = near;
}

static u8* memory;
static u32* on_gpu;  // lists of lines
static u32* small;   // a few results
static u8* results;
static int sms;
static std::string folder;
static std::mt19937 random_number;

static u32 random_below(u64 limit) { return std::uniform_int_distribution<u32>(0, limit - 1)(random_number); }

static void save(const std::string& name, const void* data, size_t bytes, bool append = false) {
    std::ofstream file(folder + "/" + name, append ? std::ios::binary | std::ios::app : std::ios::binary);
    file.write((const char*)data, bytes);
    if (!file) fprintf(stderr, "%s: not written\n", name.c_str()), exit(1);
}

// Results of the kernel launched last. Only the block on SM 0 works; `ran` says that there was one.
template <class T>
static std::vector<T> fetch(const void* from, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaGetLastError());
    u32 number = 0;
    CHECK(cudaMemcpyFromSymbol(&number, ran, 4));
    if (!number) fprintf(stderr, "no block ran on SM 0\n"), exit(1);
    const u32 none = 0;
    CHECK(cudaMemcpyToSymbol(ran, &none, 4));
    CHECK(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

static void put(u32* to, const std::vector<u32>& values) {
    CHECK(cudaMemcpy(to, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
}

static bool is_evicted(u32 line, const std::vector<u32>& list) {
    put(on_gpu, list);
    evict<<<sms, list.size() > 512 ? 1024 : 32, SHARED_BYTES>>>(memory, line, on_gpu, list.size(), small);
    for (u32 cycles : fetch<u32>(small, REPEATS))
        if (cycles <= EVICTED) return false;
    return true;
}

// Lines of a list that evict a line, as few as possible: parts that are not needed are left out, until no line can be.
static std::vector<u32> eviction_set(u32 line, std::vector<u32> list) {
    for (size_t parts = 24, in_vain = 0; parts < 200;) {
        size_t part = std::max<size_t>(1, list.size() / parts), before = list.size();
        for (size_t at = 0; at < list.size();) {
            std::vector<u32> rest(list.begin(), list.begin() + at);
            rest.insert(rest.end(), list.begin() + std::min(list.size(), at + part), list.end());
            if (rest.empty() || !is_evicted(line, rest)) {
                at += part;
                continue;
            }
            list.swap(rest);
            if (list.size() > 64) part = std::max<size_t>(1, list.size() / parts);
        }
        std::shuffle(list.begin(), list.end(), random_number);
        in_vain = list.size() < before ? 0 : in_vain + 1;
        if (in_vain && part == 1) break;
        if (in_vain == 3) parts *= 2, in_vain = 0;
    }
    return list;
}

// The home of a line, as `l2_map.py` found it: the parity of bits of its physical address.
static u32 home(u64 line) {
    u64 bits = 0;
    for (int bit : {12, 13, 15, 17, 19, 21, 22, 24, 26, 27, 28, 29, 31, 34, 35, 36}) bits |= 1ull << bit;
    return __builtin_parityll((first_byte + line * LINE) & bits);
}

// Find a set by lines of one home, then all its lines. With lines far from SM 0 it fails: these also evict each other
// from what records copies, and not always.
static bool find_set(u64 lines, u32 wanted) {
    u32 line;
    do line = random_below(lines);
    while (home(line) != wanted);
    std::vector<u32> all(CANDIDATES);
    for (u32& each : all) each = random_below(lines);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    all.erase(std::remove(all.begin(), all.end(), line), all.end());
    std::vector<u32> set, rest;
    for (u32 each : all)
        if (home(each) == wanted) rest.push_back(each);
    for (int half = 0; half < 2; half++) {
        rest.erase(std::remove_if(rest.begin(), rest.end(), [&](u32 each) {
            return std::find(set.begin(), set.end(), each) != set.end();
        }), rest.end());
        std::shuffle(rest.begin(), rest.end(), random_number);
        if (!is_evicted(line, rest)) return false;
        std::vector<u32> found = eviction_set(line, rest);
        printf("%zu lines evict line %u\n", found.size(), line);
        if (found.size() > 16) return false;
        set.insert(set.end(), found.begin(), found.end());
    }
    u32 *set_on_gpu = on_gpu, *all_on_gpu = on_gpu + 64;
    put(set_on_gpu, set);
    put(all_on_gpu, all);
    std::vector<u16> runs[2];
    for (auto& run : runs) {
        members<<<sms, 32, SHARED_BYTES>>>(memory, set_on_gpu, set.size(), all_on_gpu, all.size(), (u16*)results);
        run = fetch<u16>(results, all.size());
    }
    for (size_t i = 0; i < all.size(); i++)
        if (runs[0][i] > EVICTED && runs[1][i] > EVICTED && std::find(set.begin(), set.end(), all[i]) == set.end())
            set.push_back(all[i]);
    set.push_back(line);
    u32 count = set.size();
    printf("the set has %u of %zu lines\n", count, all.size() + 1);
    if (count < 40) return false;
    std::shuffle(set.begin(), set.end(), random_number);
    save("sets.u32", &count, 4, true);
    save("sets.u32", set.data(), 4 * count, true);
    put(on_gpu, set);
    for (u32 hinted = 0; hinted < 2; hinted++)
        for (u32 used : {17, 18, 20, 24, 32, 40})
            for (u32 skewed = 0; skewed < 2; skewed++) {
                std::vector<u8> order(LENGTH);
                for (u8& each : order) {
                    u32 a = random_below(used), b = random_below(used), c = random_below(used);
                    each = (skewed ? std::min({a, b, c}) : a) | (hinted && random_below(4) == 0 ? 64 : 0);
                }
                CHECK(cudaMemcpy(small + 1024, order.data(), LENGTH, cudaMemcpyHostToDevice));
                sequence<<<sms, 32, SHARED_BYTES>>>(memory, on_gpu, (u8*)(small + 1024), (u16*)results);
                std::vector<u16> cycles = fetch<u16>(results, LENGTH);
                save("orders.u8", order.data(), LENGTH, true);
                save("cycles.u16", cycles.data(), 2 * LENGTH, true);
            }
    return true;
}

// Lines with a home, in blocks of `bytes` that are in random order.
static std::vector<u32> blocks(u32 wanted, u64 lines, u32 bytes, size_t count) {
    u32 size = bytes / LINE;
    std::vector<u32> first, list;
    while (first.size() * size < 3 * count) first.push_back(random_below(lines / size));
    std::sort(first.begin(), first.end());
    first.erase(std::unique(first.begin(), first.end()), first.end());
    std::shuffle(first.begin(), first.end(), random_number);
    for (u32 block : first)
        for (u32 i = 0; i < size; i++)
            if (home(block * size + i) == wanted) list.push_back(block * size + i);
    return list;
}

int main(int count, char** arguments) {
    if (count < 2) return fprintf(stderr, "usage: l2_map FOLDER [SEED [START_MIB]]\n"), 2;
    folder = arguments[1];
    random_number.seed(count > 2 ? atoi(arguments[2]) : 1);
    if (count > 3) first_byte = (u64)atoi(arguments[3]) << 20;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    sms = properties.multiProcessorCount;
    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes < 40ull << 30) return fprintf(stderr, "40 GiB of free memory are needed\n"), 1;
    u64 bytes = ((free_bytes >> 30) - 3) << 30, lines = bytes / LINE;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    CHECK(cudaMalloc(&on_gpu, 16 << 20));
    CHECK(cudaMalloc(&small, 16 << 10));
    CHECK(cudaMalloc(&results, 64 << 20));
    for (auto kernel : {(const void*)hits, (const void*)evict, (const void*)members, (const void*)sequence,
                        (const void*)random_accesses, (const void*)copies})
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    printf("%s, %d SMs, %llu GiB\n", properties.name, sms, (unsigned long long)(bytes >> 30));

    std::vector<u32> pages;
    for (u32 i = 0; i < PAGES; i++) {
        u32 page = random_below(bytes >> 21);
        for (u32 j = 0; j < LINES_IN_PAGE; j++) pages.push_back(page * PAGE_LINES + random_below(PAGE_LINES));
    }
    put(on_gpu, pages);
    hits<<<sms, 32, SHARED_BYTES>>>(memory, on_gpu, results);
    std::vector<u8> least = fetch<u8>(results, (size_t)sms * pages.size());
    save("pages.u32", pages.data(), pages.size() * 4);
    save("hits.u8", least.data(), least.size());

    for (const char* name : {"sets.u32", "orders.u8", "cycles.u16"}) save(name, "", 0);
    for (u32 side : {0, 1})
        for (u32 found = 0, failed = 0; found < SETS && failed < 3;) find_set(lines, side) ? found++ : failed++;

    u32* words = (u32*)(memory + (32ull << 30));
    random_accesses<<<sms, 32, SHARED_BYTES>>>(memory, 1000, 393216, words);
    std::vector<u32> outcomes = fetch<u32>(words, RANDOM_ACCESSES / 16);
    save("random.u32", outcomes.data(), outcomes.size() * 4);

    std::ofstream table(folder + "/copies.csv");
    table << "home,block_bytes,lines,near_of_3000\n";
    for (u32 side : {0, 1})
        for (u32 block : {128, 256, 512, 1024, 4096}) {
            put(on_gpu, blocks(side, lines >> 4, block, 200000));
            for (u32 number : {20000, 40000, 60000, 80000, 100000, 120000, 140000, 160000, 200000}) {
                copies<<<sms, 1024, SHARED_BYTES>>>(memory, on_gpu, number, small);
                table << side << "," << block << "," << number << "," << fetch<u32>(small, 1)[0] << "\n";
            }
        }
    table.close();
    return table ? 0 : 1;
}
