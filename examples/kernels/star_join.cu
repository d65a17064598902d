// Query 2.1 of the Star Schema Benchmark, revenue by year and brand for a region and a category, as in Crystal
// (Shanbhag et al. 2020): four rows of the fact table per thread. Dimensions are tables with the key as index. Later
// columns are only loaded for rows that are still selected.

constexpr int CATEGORY_BRANDS = 40;

extern "C" __global__ void __launch_bounds__(128)
    star_join(const int4 *__restrict__ supplier_keys, const int *__restrict__ part_keys, const int *__restrict__ days,
              const int *__restrict__ revenues, const unsigned char *__restrict__ supplier_regions,
              const unsigned short *__restrict__ part_brands, const unsigned char *__restrict__ day_years,
              unsigned long long *__restrict__ sums, int quads, int region, int category, int brands)
{
    int quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad >= quads)
        return;
    int4 keys = supplier_keys[quad];
    int suppliers[4] = {keys.x, keys.y, keys.z, keys.w};
    bool selected[4];
    int brand[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        selected[i] = supplier_regions[suppliers[i]] == region;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (selected[i]) {
            brand[i] = part_brands[part_keys[4 * quad + i]];
            selected[i] = brand[i] / CATEGORY_BRANDS == category;
        }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (selected[i]) {
            int year = day_years[days[4 * quad + i]];
            atomicAdd(&sums[year * brands + brand[i]], (unsigned long long)revenues[4 * quad + i]);
        }
}
