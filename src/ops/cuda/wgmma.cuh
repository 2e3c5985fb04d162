// Hopper's asynchronous matrix products of a warpgroup (128 threads): 64 rows of a left operand
// times a right operand in shared memory, float32 sums in registers.
//
// The instructions name every register of the sums, hence the length of this file. Shared operands
// lie in panels of 64 channels: rows of 128 bytes whose 16-byte pieces are exchanged by the row
// (128-byte swizzle), groups of 8 rows 1024 bytes apart.
#pragma once

#include <cstdint>

namespace lazytrain::cuda::wgmma {

// How the tensor cores find an operand. `panel_bytes`: from panel to panel, which only a right
// operand whose rows are summed over needs.
__device__ inline uint64_t Descriptor(uint32_t address, uint32_t panel_bytes) {
  constexpr uint64_t kGroupBytes = 1024;
  constexpr uint64_t kSwizzle128 = 1;
  return uint64_t{(address & 0x3ffffu) >> 4} | (uint64_t{panel_bytes >> 4} << 16) |
         ((kGroupBytes >> 4) << 32) | (kSwizzle128 << 62);
}

// What is added to a descriptor for an operand so many bfloat16 further.
__host__ __device__ constexpr uint64_t Distance(int elements) {
  return static_cast<uint64_t>(elements) * 2 / 16;
}

// Registers written before are seen by the products that follow.
__device__ inline void Fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void Commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
// Until all but the last `kPending` groups of products are done.
template <int kPending>
__device__ inline void Await() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving what is done to these registers across an Await.
template <int kBlocks>
__device__ inline void FenceRegisters(float (&values)[kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) asm volatile("" : "+f"(values[i][k])::"memory");
  }
}

#define LAZYTRAIN_SUM_BLOCK(i) \
  "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])

// sums = (adds ? sums : 0) + left right^T over 16 channels; both in shared memory, a row of `right`
// a column of the sums.
template <int kColumns>
__device__ inline void MultiplyShared(float (&sums)[kColumns / 8][4], uint64_t left, uint64_t right,
                                      bool adds) {
  if constexpr (kColumns == 32) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %18, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, %16, %17, p, 1, 1, 0, 0;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3)
        : "l"(left), "l"(right), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 64) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, %32, %33, p, 1, 1, 0, 0;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3), LAZYTRAIN_SUM_BLOCK(4), LAZYTRAIN_SUM_BLOCK(5),
          LAZYTRAIN_SUM_BLOCK(6), LAZYTRAIN_SUM_BLOCK(7)
        : "l"(left), "l"(right), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 128) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
        "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, p, 1, 1, 0, 0;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3), LAZYTRAIN_SUM_BLOCK(4), LAZYTRAIN_SUM_BLOCK(5),
          LAZYTRAIN_SUM_BLOCK(6), LAZYTRAIN_SUM_BLOCK(7), LAZYTRAIN_SUM_BLOCK(8),
          LAZYTRAIN_SUM_BLOCK(9), LAZYTRAIN_SUM_BLOCK(10), LAZYTRAIN_SUM_BLOCK(11),
          LAZYTRAIN_SUM_BLOCK(12), LAZYTRAIN_SUM_BLOCK(13), LAZYTRAIN_SUM_BLOCK(14),
          LAZYTRAIN_SUM_BLOCK(15)
        : "l"(left), "l"(right), "r"(static_cast<int>(adds)));
  }
}

// sums += left right over 16 rows of `right`; left in registers, laid out as sums are.
template <int kColumns>
__device__ inline void MultiplyRegisters(float (&sums)[kColumns / 8][4], const uint32_t (&left)[4],
                                         uint64_t right) {
  if constexpr (kColumns == 64) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3), LAZYTRAIN_SUM_BLOCK(4), LAZYTRAIN_SUM_BLOCK(5),
          LAZYTRAIN_SUM_BLOCK(6), LAZYTRAIN_SUM_BLOCK(7)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
  } else if constexpr (kColumns == 128) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
        "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3), LAZYTRAIN_SUM_BLOCK(4), LAZYTRAIN_SUM_BLOCK(5),
          LAZYTRAIN_SUM_BLOCK(6), LAZYTRAIN_SUM_BLOCK(7), LAZYTRAIN_SUM_BLOCK(8),
          LAZYTRAIN_SUM_BLOCK(9), LAZYTRAIN_SUM_BLOCK(10), LAZYTRAIN_SUM_BLOCK(11),
          LAZYTRAIN_SUM_BLOCK(12), LAZYTRAIN_SUM_BLOCK(13), LAZYTRAIN_SUM_BLOCK(14),
          LAZYTRAIN_SUM_BLOCK(15)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
  } else if constexpr (kColumns == 256) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
        "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,"
        "%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"
        "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,"
        "%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,"
        "%121,%122,%123,%124,%125,%126,%127"
        "}, {%128,%129,%130,%131}, %132, p, 1, 1, 1;}\n"
        : LAZYTRAIN_SUM_BLOCK(0), LAZYTRAIN_SUM_BLOCK(1), LAZYTRAIN_SUM_BLOCK(2),
          LAZYTRAIN_SUM_BLOCK(3), LAZYTRAIN_SUM_BLOCK(4), LAZYTRAIN_SUM_BLOCK(5),
          LAZYTRAIN_SUM_BLOCK(6), LAZYTRAIN_SUM_BLOCK(7), LAZYTRAIN_SUM_BLOCK(8),
          LAZYTRAIN_SUM_BLOCK(9), LAZYTRAIN_SUM_BLOCK(10), LAZYTRAIN_SUM_BLOCK(11),
          LAZYTRAIN_SUM_BLOCK(12), LAZYTRAIN_SUM_BLOCK(13), LAZYTRAIN_SUM_BLOCK(14),
          LAZYTRAIN_SUM_BLOCK(15), LAZYTRAIN_SUM_BLOCK(16), LAZYTRAIN_SUM_BLOCK(17),
          LAZYTRAIN_SUM_BLOCK(18), LAZYTRAIN_SUM_BLOCK(19), LAZYTRAIN_SUM_BLOCK(20),
          LAZYTRAIN_SUM_BLOCK(21), LAZYTRAIN_SUM_BLOCK(22), LAZYTRAIN_SUM_BLOCK(23),
          LAZYTRAIN_SUM_BLOCK(24), LAZYTRAIN_SUM_BLOCK(25), LAZYTRAIN_SUM_BLOCK(26),
          LAZYTRAIN_SUM_BLOCK(27), LAZYTRAIN_SUM_BLOCK(28), LAZYTRAIN_SUM_BLOCK(29),
          LAZYTRAIN_SUM_BLOCK(30), LAZYTRAIN_SUM_BLOCK(31)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
  }
}

#undef LAZYTRAIN_SUM_BLOCK

}  // namespace lazytrain::cuda::wgmma
