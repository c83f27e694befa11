// Opening checkpoints: formats, shards, index, reads, and that a .bin equals its safetensors twin.
#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/weights/test_files.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using testing::byte_tensor;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::safetensors_file;
using testing::TemporaryFolder;

const fs::path kGolden = fs::path(FATHOM_SOURCE_DIR) / "tests/data/golden";

std::string read_all(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(tensor.bytes, '\0');
  const Status status = checkpoint.read(tensor, 0, bytes.data(), bytes.size());
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

std::string open_error(const fs::path& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  EXPECT_FALSE(checkpoint.has_value());
  return checkpoint ? "" : checkpoint.error().message();
}

TEST(Checkpoint, ReadsAGoldenSafetensorsFile) {
  const auto checkpoint = Checkpoint::open(kGolden / "v1-dense");
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_STREQ(checkpoint->format(), "safetensors");
  const TensorInfo* embed = checkpoint->find("model.embed_tokens.weight");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->dtype, DType::kBF16);
  EXPECT_EQ(embed->shape, (std::vector<int64_t>{512, 128}));
  EXPECT_EQ(checkpoint->find("model.embed_tokens.weights"), nullptr);
}

TEST(Checkpoint, TorchBinEqualsSafetensorsByteForByte) {
  const auto expected = Checkpoint::open(kGolden / "v1-dense");
  const auto actual = Checkpoint::open(kGolden / "v1-dense-bin");
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  ASSERT_TRUE(actual.has_value()) << actual.error().message();
  EXPECT_STREQ(actual->format(), "pytorch bin");
  ASSERT_EQ(actual->tensors().size(), expected->tensors().size());
  for (const TensorInfo& tensor : expected->tensors()) {
    const TensorInfo* twin = actual->find(tensor.name);
    ASSERT_NE(twin, nullptr) << tensor.name;
    EXPECT_EQ(twin->dtype, tensor.dtype);
    EXPECT_EQ(twin->shape, tensor.shape);
    EXPECT_EQ(read_all(*actual, *twin), read_all(*expected, tensor)) << tensor.name;
  }
}

TEST(Checkpoint, ReadsEveryTypeEmptyTensorsAndScalars) {
  TemporaryFolder folder;
  std::vector<testing::TestTensor> tensors;
  for (int code = 0; code <= static_cast<int>(DType::kBool); ++code) {
    const auto dtype = static_cast<DType>(code);
    tensors.push_back({dtype_name(dtype), dtype, {2, 3}, std::string(6 * dtype_size(dtype), 'x')});
  }
  tensors.push_back({"scalar", DType::kF32, {}, "abcd"});
  tensors.push_back({"empty", DType::kF32, {0, 7}, ""});
  folder.write("model.safetensors", safetensors_file(tensors));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), tensors.size());
  for (const auto& tensor : tensors) {
    const TensorInfo* info = checkpoint->find(tensor.name);
    ASSERT_NE(info, nullptr) << tensor.name;
    EXPECT_EQ(info->dtype, tensor.dtype);
    EXPECT_EQ(info->shape, tensor.shape);
    EXPECT_EQ(read_all(*checkpoint, *info), tensor.bytes);
  }
  EXPECT_EQ(element_count(*checkpoint->find("scalar")), 1);
  EXPECT_EQ(element_count(*checkpoint->find("empty")), 0);
}

TEST(Checkpoint, RefusesReadsBeyondATensor) {
  TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_file({byte_tensor("a", 4), byte_tensor("b", 4)}));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.has_value());
  char buffer[8];
  const TensorInfo& tensor = *checkpoint->find("a");
  EXPECT_TRUE(checkpoint->read(tensor, 2, buffer, 2).ok());
  EXPECT_FALSE(checkpoint->read(tensor, 2, buffer, 3).ok());
  EXPECT_FALSE(checkpoint->read(tensor, ~uint64_t{0}, buffer, 2).ok());
}

TEST(Checkpoint, MapsTheSameBytes) {
  const auto checkpoint = Checkpoint::open(kGolden / "v1-dense", {.mmap = true});
  ASSERT_TRUE(checkpoint.has_value());
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    const auto* mapped = reinterpret_cast<const char*>(checkpoint->data(tensor));
    ASSERT_NE(mapped, nullptr);
    EXPECT_EQ(std::string_view(mapped, tensor.bytes), read_all(*checkpoint, tensor));
  }
  const auto unmapped = Checkpoint::open(kGolden / "v1-dense");
  EXPECT_EQ(unmapped->data(unmapped->tensors().front()), nullptr);
}

// A model of three shards with its index; tests spoil it.
class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    for (int i = 1; i <= 3; ++i) write_shard(i, {byte_tensor("w" + std::to_string(i), 4)});
    map_ = {{"w1", name(1)}, {"w2", name(2)}, {"w3", name(3)}};
  }
  static std::string name(int shard) {
    return "model-0000" + std::to_string(shard) + "-of-00003.safetensors";
  }
  void write_shard(int shard, const std::vector<testing::TestTensor>& tensors) {
    folder_.write(name(shard), safetensors_file(tensors));
  }
  fs::path write_index(const std::string& metadata = "{\"total_size\":12}") {
    std::string text = "{\"metadata\":" + metadata + ",\"weight_map\":{";
    bool first = true;
    for (const auto& [tensor, file] : map_) {
      text += (first ? "\"" : ",\"") + tensor + "\":\"" + file + "\"";
      first = false;
    }
    folder_.write("model.safetensors.index.json", text + "}}");
    return folder_.path();
  }
  TemporaryFolder folder_;
  std::map<std::string, std::string> map_;
};

TEST_F(Sharded, Opens) {
  const auto checkpoint = Checkpoint::open(write_index());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_STREQ(checkpoint->format(), "safetensors sharded");
  EXPECT_EQ(checkpoint->file_count(), 3);
  EXPECT_EQ(checkpoint->total_bytes(), 12u);
  const TensorInfo* tensor = checkpoint->find("w2");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(checkpoint->file_name(tensor->file), name(2));
}

TEST_F(Sharded, ToleratesAWrongTotalSize) {
  EXPECT_TRUE(Checkpoint::open(write_index("{\"total_size\":999}")).has_value());
}

TEST_F(Sharded, OpensACompleteSetWithoutIndex) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
}

TEST_F(Sharded, NamesTheMissingFileOfASetWithoutIndex) {
  fs::remove(folder_.path() / name(2));
  EXPECT_THAT(open_error(folder_.path()), HasSubstr(name(2)));
}

TEST_F(Sharded, FollowsLinksAsTheHuggingFaceCacheUsesThem) {
  fs::rename(folder_.path() / name(1), folder_.path() / "blob");
  fs::create_symlink("blob", folder_.path() / name(1));
  EXPECT_TRUE(Checkpoint::open(write_index()).has_value());
}

TEST_F(Sharded, ListsEveryOffenderInOneMessage) {
  fs::remove(folder_.path() / name(1));
  write_shard(2, {byte_tensor("w2", 4), byte_tensor("extra", 4), byte_tensor("w3", 4)});
  map_["lost"] = name(3);
  const std::string message = open_error(write_index());
  EXPECT_THAT(message, HasSubstr("missing file " + name(1)));
  EXPECT_THAT(message, HasSubstr("with 1 tensors (w1)"));
  EXPECT_THAT(message, HasSubstr("tensor that the index does not list extra in " + name(2)));
  EXPECT_THAT(message, HasSubstr("duplicate tensor w3"));
  EXPECT_THAT(message, HasSubstr("tensor of the index that its shard lacks lost"));
  EXPECT_THAT(message, HasSubstr("(5 problems)"));  // w3 is also not where the index says
  EXPECT_THAT(message, Not(HasSubstr("shard lacks w1")));
}

TEST_F(Sharded, RefusesShardNamesThatLeaveTheFolder) {
  for (const std::string bad :
       {"../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""}) {
    map_["w1"] = bad;
    const std::string message = open_error(write_index());
    EXPECT_THAT(message, HasSubstr("forbidden shard name for tensor w1")) << bad;
  }
}

TEST_F(Sharded, HeaderHashSeesNamesTypesAndFiles) {
  const uint64_t before = Checkpoint::open(write_index())->header_hash();
  EXPECT_EQ(Checkpoint::open(folder_.path())->header_hash(), before);
  write_shard(2, {byte_tensor("w2", 5)});
  EXPECT_NE(Checkpoint::open(folder_.path())->header_hash(), before);
}

TEST(Checkpoint, OpensAShardedTorchCheckpoint) {
  TemporaryFolder folder;
  const fs::path files = fs::path(FATHOM_SOURCE_DIR) / "tests/data/torch_bin";
  fs::copy_file(files / "module/pytorch_model.bin", folder.path() / "one.bin");
  fs::copy_file(files / "fp8/pytorch_model.bin", folder.path() / "two.bin");
  folder.write(
      "pytorch_model.bin.index.json",
      "{\"weight_map\":{\"0.weight\":\"one.bin\",\"0.bias\":\"one.bin\",\"1.weight\":\"one.bin\","
      "\"1.bias\":\"one.bin\",\"e4m3\":\"two.bin\",\"e5m2\":\"two.bin\",\"e8m0\":\"two.bin\"}}");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_STREQ(checkpoint->format(), "pytorch bin sharded");
  EXPECT_EQ(checkpoint->tensors().size(), 7u);
  const auto expected = Checkpoint::open(files / "fp8-expected");
  ASSERT_TRUE(expected.has_value());
  for (const TensorInfo& tensor : expected->tensors()) {
    const TensorInfo* twin = checkpoint->find(tensor.name);
    ASSERT_NE(twin, nullptr);
    EXPECT_EQ(checkpoint->file_name(twin->file), "two.bin");
    EXPECT_EQ(read_all(*checkpoint, *twin), read_all(*expected, tensor));
  }
}

TEST(Checkpoint, OpensAsManyTensorsAsV3Has) {
  constexpr int kShards = 163;
  constexpr int kTensorsPerShard = 565;  // 92,095 in all; V3 has 91,991
  TemporaryFolder folder;
  std::string map;
  for (int shard = 0; shard < kShards; ++shard) {
    const std::string file = "shard" + std::to_string(shard) + ".safetensors";
    std::vector<testing::TestTensor> tensors;
    for (int i = 0; i < kTensorsPerShard; ++i) {
      const std::string name =
          "model.layers." + std::to_string(shard) + ".mlp.experts." + std::to_string(i);
      tensors.push_back(byte_tensor(name, 1));
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"" + file + "\"";
    }
    folder.write(file, safetensors_file(tensors));
  }
  folder.write("model.safetensors.index.json",
               "{\"metadata\":{\"total_size\":92095},\"weight_map\":{" + map + "}}");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), size_t{kShards} * kTensorsPerShard);
  EXPECT_EQ(checkpoint->total_bytes(), 92095u);
}

TEST(Discovery, PrefersSafetensorsAndSaysWhatAFolderHas) {
  TemporaryFolder folder;
  folder.write("pytorch_model.bin", "not a zip");
  folder.write("model.safetensors", safetensors_file({byte_tensor("a", 1)}));
  EXPECT_STREQ(Checkpoint::open(folder.path())->format(), "safetensors");
  TemporaryFolder other;
  EXPECT_THAT(open_error(other.path()), HasSubstr("has no weights"));
  other.write("adapter_model.safetensors", "");
  other.write("weights.gguf", "");
  EXPECT_THAT(open_error(other.path()), HasSubstr("adapter_model.safetensors, weights.gguf"));
  EXPECT_THAT(open_error(other.path() / "absent"), HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace fathom
