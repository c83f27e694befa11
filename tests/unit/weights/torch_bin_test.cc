// Files that torch.save wrote: every protocol and type, parameters, shared storages; and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "weights/checkpoint.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kFiles = fs::path(FATHOM_SOURCE_DIR) / "tests/data/torch_bin";

std::string read_all(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(tensor.bytes, '\0');
  EXPECT_TRUE(checkpoint.read(tensor, 0, bytes.data(), bytes.size()).ok());
  return bytes;
}

class TorchFile : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchFile, EqualsItsSafetensorsTwin) {
  const std::string name = GetParam();
  const auto actual = Checkpoint::open(kFiles / name);
  const auto expected = Checkpoint::open(kFiles / (name + "-expected"));
  ASSERT_TRUE(actual.has_value()) << actual.error().message();
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  ASSERT_EQ(actual->tensors().size(), expected->tensors().size());
  for (const TensorInfo& tensor : expected->tensors()) {
    const TensorInfo* twin = actual->find(tensor.name);
    ASSERT_NE(twin, nullptr) << tensor.name;
    EXPECT_EQ(twin->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(twin->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(read_all(*actual, *twin), read_all(*expected, tensor)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TorchFile,
                         ::testing::Values("proto2", "proto4", "proto5", "fp8", "params", "module",
                                           "tied", "nocrc"),
                         [](const auto& info) { return std::string(info.param); });

struct Refusal {
  const char* name;
  std::vector<const char*> expected;
};

TEST(TorchFile, RefusesWhatIsNotAStateDictOfPlainTensors) {
  const std::vector<Refusal> refusals = {
      {"bad-legacy", {"torch before 1.6", "torch.save(torch.load("}},
      {"bad-wrapped",
       {"entry that is not a tensor state_dict", "entry that is not a tensor epoch"}},
      {"bad-transposed",
       {"strided view transposed", "strided view column", "[4, 6] with strides [1, 4]"}},
      {"bad-sparse", {"at tensor s", "torch._utils._rebuild_sparse_tensor"}},
      {"bad-system", {"at tensor x", "posix.system", "nothing was executed"}},
      {"bad-pattr", {"at tensor x", "torch._utils._rebuild_parameter_with_state"}},
  };
  for (const Refusal& refusal : refusals) {
    const auto checkpoint = Checkpoint::open(kFiles / refusal.name);
    ASSERT_FALSE(checkpoint.has_value()) << refusal.name;
    EXPECT_THAT(checkpoint.error().message(), HasSubstr("pytorch_model.bin")) << refusal.name;
    for (const char* text : refusal.expected) {
      EXPECT_THAT(checkpoint.error().message(), HasSubstr(text)) << refusal.name;
    }
  }
}

}  // namespace
}  // namespace fathom
