// The loader delivers every row once, with any number of threads, mapped or read.
#include "weights/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "tests/unit/weights/test_files.h"

namespace fathom {
namespace {

using testing::byte_tensor;
using ::testing::HasSubstr;
using testing::safetensors_file;
using testing::TemporaryFolder;

// Loads everything into one buffer per tensor; rows of 7 bytes so that chunks are not powers of
// two.
struct Loaded {
  std::vector<std::string> bytes;
  LoadStats stats;
};

Loaded load_all(const Checkpoint& checkpoint, int threads) {
  constexpr size_t kRow = 7;
  ThreadPool pool(threads);
  Loaded loaded;
  for (const TensorInfo& tensor : checkpoint.tensors())
    loaded.bytes.emplace_back(tensor.bytes, '\0');
  std::vector<LoadJob> jobs;
  std::vector<std::atomic<int>> workers(static_cast<size_t>(pool.size()));
  for (size_t i = 0; i < loaded.bytes.size(); ++i) {
    const TensorInfo& tensor = checkpoint.tensors()[i];
    char* target = loaded.bytes[i].data();
    jobs.push_back(
        {&tensor, static_cast<int64_t>(tensor.bytes / kRow), kRow,
         [target, &workers](int64_t row, int64_t rows, const std::byte* bytes, int worker) {
           EXPECT_EQ(workers[static_cast<size_t>(worker)]++,
                     0);  // a worker does one thing at a time
           std::memcpy(target + row * 7, bytes, static_cast<size_t>(rows) * 7);
           workers[static_cast<size_t>(worker)]--;
         }});
  }
  uint64_t last = 0;
  uint64_t total = 0;
  LoadOptions options;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  auto stats = load_tensors(checkpoint, std::move(jobs), pool, options);
  EXPECT_TRUE(stats.has_value());
  if (stats) loaded.stats = *stats;
  EXPECT_EQ(last, total);
  return loaded;
}

class Loader : public ::testing::Test {
 protected:
  Loader() {
    tensors_ = {byte_tensor("small", 7), byte_tensor("large", 7 * 500'000, 3),
                byte_tensor("none", 0), byte_tensor("middle", 7 * 1000, 5)};
    folder_.write("model.safetensors", safetensors_file(tensors_));
  }
  void expect_right(const Checkpoint& checkpoint, const Loaded& loaded) const {
    for (size_t i = 0; i < loaded.bytes.size(); ++i) {
      for (const auto& tensor : tensors_) {
        if (tensor.name != checkpoint.tensors()[i].name) continue;
        EXPECT_EQ(loaded.bytes[i], tensor.bytes);
      }
    }
  }
  TemporaryFolder folder_;
  std::vector<testing::TestTensor> tensors_;
};

TEST_F(Loader, DeliversTheSameBytesAndHashWhateverTheThreads) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const Loaded one = load_all(*checkpoint, 1);
  expect_right(*checkpoint, one);
  EXPECT_EQ(one.stats.bytes, checkpoint->total_bytes());
  for (const int threads : {2, 5}) {
    const Loaded many = load_all(*checkpoint, threads);
    expect_right(*checkpoint, many);
    EXPECT_EQ(many.stats.content_hash, one.stats.content_hash);
  }
}

TEST_F(Loader, DeliversTheSameFromAMapping) {
  const auto checkpoint = Checkpoint::open(folder_.path(), {.mmap = true});
  ASSERT_TRUE(checkpoint.has_value());
  const Loaded mapped = load_all(*checkpoint, 2);
  expect_right(*checkpoint, mapped);
  EXPECT_EQ(mapped.stats.content_hash,
            load_all(*Checkpoint::open(folder_.path()), 1).stats.content_hash);
}

TEST(LoaderAlignment, RowsAreAlignedEvenIfTheFileIsNot) {
  TemporaryFolder folder;
  const testing::TestTensor words{"words", DType::kF32, {3}, "abcdefghijkl"};
  folder.write("model.safetensors",
               safetensors_file({byte_tensor("odd", 1), words, byte_tensor("end", 7)}));
  for (const bool mmap : {false, true}) {
    const auto checkpoint = Checkpoint::open(folder.path(), {.mmap = mmap});
    ASSERT_TRUE(checkpoint.has_value());
    std::string got;
    std::vector<LoadJob> jobs{
        {checkpoint->find("words"), 1, 12, [&](int64_t, int64_t, const std::byte* bytes, int) {
           EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % sizeof(float), 0u);
           got.assign(reinterpret_cast<const char*>(bytes), 12);
         }}};
    ThreadPool pool(1);
    ASSERT_TRUE(load_tensors(*checkpoint, std::move(jobs), pool).has_value());
    EXPECT_EQ(got, words.bytes);
  }
}

TEST_F(Loader, HashSeesOneChangedByteAndSwappedTensors) {
  const uint64_t before = load_all(*Checkpoint::open(folder_.path()), 2).stats.content_hash;
  tensors_[1].bytes[1'000'000] ^= 1;
  folder_.write("model.safetensors", safetensors_file(tensors_));
  EXPECT_NE(load_all(*Checkpoint::open(folder_.path()), 2).stats.content_hash, before);
  TemporaryFolder a;
  TemporaryFolder b;
  a.write("model.safetensors", safetensors_file({byte_tensor("x", 7, 1), byte_tensor("y", 7, 2)}));
  b.write("model.safetensors", safetensors_file({byte_tensor("x", 7, 2), byte_tensor("y", 7, 1)}));
  EXPECT_NE(load_all(*Checkpoint::open(a.path()), 1).stats.content_hash,
            load_all(*Checkpoint::open(b.path()), 1).stats.content_hash);
}

TEST_F(Loader, DeliversRowsLongerThanAChunk) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ThreadPool pool(2);
  const TensorInfo& tensor = *checkpoint->find("large");
  std::string got(tensor.bytes, '\0');
  std::vector<LoadJob> jobs{
      {&tensor, 1, tensor.bytes, [&](int64_t row, int64_t rows, const std::byte* bytes, int) {
         EXPECT_EQ(row, 0);
         EXPECT_EQ(rows, 1);
         std::memcpy(got.data(), bytes, got.size());
       }}};
  ASSERT_TRUE(load_tensors(*checkpoint, std::move(jobs), pool).has_value());
  EXPECT_EQ(got, tensors_[1].bytes);
}

TEST_F(Loader, AFileCutAfterOpeningIsAnErrorWithItsName) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  std::filesystem::resize_file(folder_.path() / "model.safetensors", 2'000'000);
  ThreadPool pool(2);
  std::vector<LoadJob> jobs;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    jobs.push_back({&tensor, static_cast<int64_t>(tensor.bytes), 1,
                    [](int64_t, int64_t, const std::byte*, int) {}});
  }
  const auto result = load_tensors(*checkpoint, std::move(jobs), pool);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message(), HasSubstr("model.safetensors"));
  EXPECT_THAT(result.error().message(), HasSubstr("truncated"));
}

TEST_F(Loader, RefusesRowsThatDoNotMakeTheTensor) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ThreadPool pool(1);
  const auto sink = [](int64_t, int64_t, const std::byte*, int) {};
  std::vector<LoadJob> jobs{{checkpoint->find("small"), 2, 7, sink}};
  EXPECT_FALSE(load_tensors(*checkpoint, std::move(jobs), pool).has_value());
}

}  // namespace
}  // namespace fathom
