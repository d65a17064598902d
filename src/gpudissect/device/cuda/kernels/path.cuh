// The path of one load: its PTX, the type of a link and the bit of a link that marks a picked position.
// One path a compilation: -DPATH_GLOBAL, -DPATH_TEXTURE, ...
//
// LOAD is PTX that replaces the link %0 by the link it leads to; %2 is the texture object.
// A load takes a link as it is, so that nothing stands between two loads: absolute addresses in global memory and in
// another block's shared memory, byte offsets in constant and shared memory, texel indices in a texture.
#pragma once
#include "bulk.cuh"
#include "job.cuh"

#define ADDRESS_MARK 1           // links are multiples of 4 or 8
#define TEXEL_MARK 0x80000000    // a linear texture has at most 2^28 texels

#if defined(PATH_GLOBAL) || defined(PATH_GLOBAL_L2) || defined(PATH_READONLY) || defined(PATH_CLUSTER) || \
    defined(PATH_TMA)
using Link = u64;
#define LINK "l"
#define BITS ".b64"
#define MARK ADDRESS_MARK
#else
using Link = u32;
#define LINK "r"
#define BITS ".b32"
#ifdef PATH_TEXTURE
#define MARK TEXEL_MARK
#else
#define MARK ADDRESS_MARK
#endif
#endif

#define LOAD_GLOBAL "ld.global.ca.u64 %0, [%0];\n\t"
#define LOAD_GLOBAL_L2 "ld.global.cg.u64 %0, [%0];\n\t"
#define LOAD_READONLY "ld.global.nc.u64 %0, [%0];\n\t"
#define LOAD_TEXTURE "tex.1d.v4.u32.s32 {%0, _, _, _}, [%2, {%0}];\n\t"
#define LOAD_CONSTANT "ld.const.u32 %0, [%0];\n\t"

#if defined(PATH_GLOBAL)
#define LOAD LOAD_GLOBAL
#elif defined(PATH_GLOBAL_L2)
#define LOAD LOAD_GLOBAL_L2
#elif defined(PATH_READONLY)
#define LOAD LOAD_READONLY
#elif defined(PATH_TEXTURE)
#define LOAD LOAD_TEXTURE
#elif defined(PATH_CONSTANT)
#define LOAD LOAD_CONSTANT
#elif defined(PATH_SHARED)
#define LOAD "ld.shared.u32 %0, [%0];\n\t"
#elif defined(PATH_CLUSTER)
// A generic load, which is also what ld.shared::cluster compiles to; but that one takes the lower half of an address
// and adds the upper one between two loads.
#define LOAD "ld.u64 %0, [%0];\n\t"
#elif defined(PATH_TMA)
#define LOAD LOAD_BULK
#elif defined(PATH_NOTHING) || defined(PATH_CODE)  // for the latter see code.cuh
#define LOAD ""
#else
#error "compile with one of -DPATH_GLOBAL, _GLOBAL_L2, _READONLY, _TEXTURE, _CONSTANT, _SHARED, _CLUSTER, _TMA, _NOTHING, _CODE"
#endif

#if defined(PATH_CONSTANT) || defined(PRIOR)
// The whole constant bank of this module, at offset 0; the host writes the chain into it before the launch.
extern "C" __constant__ u32 bank[65536 / 4];
#endif

// NEVER_LOAD is a load into `idle` that never runs (`never` is false in every thread). It needs the texture object in
// uniform registers (Hopper on): otherwise the assembler moves it there right before the first load that needs it,
// which is inside the timed window. (It must fetch another texel than the window does: the assembler merges two fetches
// of one texel, and would do the one fetch before the window.)
#ifdef PATH_TEXTURE
#define NEVER_LOAD "@never tex.1d.v4.u32.s32 {idle, _, _, _}, [%2, {idle}];\n\t"
#else
#define NEVER_LOAD ""
#endif
