// Gate of the GPU arithmetic contract: on Hopper every bf16 tensor-core path with k = 16 steps
// gives the same float32 bits, so one op may use any of them at any batch size. Compares, for D = A
// * B^T:
//   mma.sync m16n8k16 (the reference), wgmma m64n8k16, wgmma m64n16k16, wgmma m64n8k16 with A and B
//   exchanged; and, as a check that the comparison can fail, a chain of float32 FMAs.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

using Bf16 = __nv_bfloat16;
constexpr int kRows = 64;  // rows of A: the M of one wgmma
constexpr int kCols = 8;   // rows of B that are compared
constexpr int kStep = 16;  // k of one instruction

// Shared-memory descriptor of a K-major operand without swizzle: 8 x 16-byte core matrices,
// `leading` bytes between k halves and `stride` bytes between groups of 8 rows.
__device__ uint64_t descriptor(const void* shared, uint32_t leading, uint32_t stride) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  return (address & 0x3ffffu) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}

// Copies columns [k0, k0 + 16) of `rows` rows into core-matrix order; rows beyond `valid` are zero.
__device__ void stage(Bf16* shared, const Bf16* global, int rows, int valid, int depth, int k0) {
  for (int i = threadIdx.x; i < rows * kStep; i += blockDim.x) {
    const int row = i / kStep, k = i % kStep;
    shared[((k / 8) * (rows / 8) + row / 8) * 64 + (row % 8) * 8 + k % 8] =
        row < valid ? global[static_cast<size_t>(row) * depth + k0 + k] : __float2bfloat16(0.f);
  }
}

__device__ void wgmma_begin() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ void wgmma_end() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  __syncthreads();
}

// Each of 128 threads holds rows (warp * 16 + lane / 4) and + 8, columns (lane % 4) * 2 and + 1.
struct Fragment {
  int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  int col = threadIdx.x % 4 * 2;
  __device__ void store(float* d, const float* value) const {  // d [64, 8]
    d[row * kCols + col] = value[0];
    d[row * kCols + col + 1] = value[1];
    d[(row + 8) * kCols + col] = value[2];
    d[(row + 8) * kCols + col + 1] = value[3];
  }
};

__global__ void mma_sync(const Bf16* a, const Bf16* b, float* d, int depth) {
  const Fragment fragment;
  const auto* a2 = reinterpret_cast<const uint32_t*>(a);
  const auto* b2 = reinterpret_cast<const uint32_t*>(b);
  const int stride = depth / 2, lane = threadIdx.x % 32;
  float acc[4] = {};
  for (int k = 0; k < depth; k += kStep) {
    const int q = k / 2 + lane % 4;
    const uint32_t* top = a2 + fragment.row * stride + q;
    const uint32_t* bottom = top + 8 * stride;
    const uint32_t* col = b2 + lane / 4 * stride + q;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
        "{%0,%1,%2,%3};\n"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(top[0]), "r"(bottom[0]), "r"(top[4]), "r"(bottom[4]), "r"(col[0]), "r"(col[4]));
  }
  fragment.store(d, acc);
}

__global__ void wgmma_n8(const Bf16* a, const Bf16* b, float* d, int depth, bool exchanged) {
  __shared__ __align__(1024) Bf16 wide[kRows * kStep];
  __shared__ __align__(1024) Bf16 narrow[kCols * kStep];
  const Fragment fragment;
  float acc[4] = {};
  for (int k = 0; k < depth; k += kStep) {
    stage(wide, exchanged ? b : a, kRows, exchanged ? kCols : kRows, depth, k);
    stage(narrow, exchanged ? a : b, kCols, kCols, depth, k);
    wgmma_begin();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3},%4,%5,1,1,1,0,0;\n"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "l"(descriptor(wide, 1024, 128)), "l"(descriptor(narrow, 128, 128)));
    wgmma_end();
  }
  if (!exchanged) {
    fragment.store(d, acc);
  } else if (fragment.row <
             kCols) {  // D^T: its row is a column of D, its columns are A's first rows
    d[fragment.col * kCols + fragment.row] = acc[0];
    d[(fragment.col + 1) * kCols + fragment.row] = acc[1];
  }
}

__global__ void wgmma_n16(const Bf16* a, const Bf16* b, float* d, int depth) {
  __shared__ __align__(1024) Bf16 wide[kRows * kStep];
  __shared__ __align__(1024) Bf16 narrow[16 * kStep];
  const Fragment fragment;
  float acc[8] = {};
  for (int k = 0; k < depth; k += kStep) {
    stage(wide, a, kRows, kRows, depth, k);
    stage(narrow, b, 16, 16, depth, k);
    wgmma_begin();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7},%8,%9,1,1,1,0,0;\n"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]),
          "+f"(acc[6]), "+f"(acc[7])
        : "l"(descriptor(wide, 1024, 128)), "l"(descriptor(narrow, 256, 128)));
    wgmma_end();
  }
  fragment.store(d, acc);  // the first 8 of 16 columns
}

__global__ void fma_chain(const Bf16* a, const Bf16* b, float* d, int depth) {
  const int row = threadIdx.x / kCols, col = threadIdx.x % kCols;
  float acc = 0;
  for (int k = 0; k < depth; ++k) {
    acc =
        __fmaf_rn(__bfloat162float(a[row * depth + k]), __bfloat162float(b[col * depth + k]), acc);
  }
  d[row * kCols + col] = acc;
}

enum class Data { kNormal, kWide, kCancelling, kTiny };

float draw(Data data, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  const float value = normal(random);
  switch (data) {
    case Data::kNormal:
      return value;
    case Data::kWide:
      return std::ldexp(value, static_cast<int>(random() % 24) - 12);
    case Data::kCancelling:
      return random() % 2 ? value : std::ldexp(value, -7) - value;
    case Data::kTiny:
      return std::ldexp(value, -66 - static_cast<int>(random() % 4));
  }
  return 0;
}

struct DeviceMemory {
  explicit DeviceMemory(size_t bytes) { EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess); }
  ~DeviceMemory() { cudaFree(data); }
  void* data = nullptr;
};

// Outputs in which `other` has other bits than `reference`, over the first `rows` rows.
int differing(const float* reference, const float* other, int rows) {
  int count = 0;
  for (int i = 0; i < rows * kCols; ++i)
    count += std::memcmp(reference + i, other + i, sizeof(float)) != 0;
  return count;
}

TEST(MmaBits, AllK16PathsAgree) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    GTEST_SKIP() << "no CUDA device here";
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  if (properties.major != 9) GTEST_SKIP() << "no CUDA device of compute capability 9.x here";

  constexpr int kOut = kRows * kCols;
  std::mt19937_64 random(1);
  int chain_differs = 0;
  for (Data data : {Data::kNormal, Data::kWide, Data::kCancelling, Data::kTiny}) {
    for (int depth : {16, 64, 512, 1408, 2048, 7168}) {
      std::vector<Bf16> a(static_cast<size_t>(kRows) * depth), b(static_cast<size_t>(16) * depth);
      for (Bf16& x : a) x = __float2bfloat16(draw(data, random));
      for (Bf16& x : b) x = __float2bfloat16(draw(data, random));
      DeviceMemory da(a.size() * 2), db(b.size() * 2), dd(5 * kOut * sizeof(float));
      cudaMemcpy(da.data, a.data(), a.size() * 2, cudaMemcpyHostToDevice);
      cudaMemcpy(db.data, b.data(), b.size() * 2, cudaMemcpyHostToDevice);
      const auto* pa = static_cast<const Bf16*>(da.data);
      const auto* pb = static_cast<const Bf16*>(db.data);
      auto* pd = static_cast<float*>(dd.data);
      mma_sync<<<1, 128>>>(pa, pb, pd, depth);
      wgmma_n8<<<1, 128>>>(pa, pb, pd + kOut, depth, false);
      wgmma_n16<<<1, 128>>>(pa, pb, pd + 2 * kOut, depth);
      wgmma_n8<<<1, 128>>>(pa, pb, pd + 3 * kOut, depth, true);
      fma_chain<<<1, kOut>>>(pa, pb, pd + 4 * kOut, depth);
      std::vector<float> d(5 * kOut);
      ASSERT_EQ(cudaMemcpy(d.data(), dd.data, d.size() * sizeof(float), cudaMemcpyDeviceToHost),
                cudaSuccess);
      EXPECT_EQ(differing(d.data(), d.data() + kOut, kRows), 0) << "wgmma n8, depth " << depth;
      EXPECT_EQ(differing(d.data(), d.data() + 2 * kOut, kRows), 0) << "wgmma n16, depth " << depth;
      EXPECT_EQ(differing(d.data(), d.data() + 3 * kOut, kCols), 0) << "exchanged, depth " << depth;
      chain_differs += differing(d.data(), d.data() + 4 * kOut, kRows);
    }
  }
  EXPECT_GT(chain_differs, 0) << "the comparison cannot see a different order of additions";
}

}  // namespace
