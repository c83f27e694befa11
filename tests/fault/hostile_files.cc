// The one check that all hostile checkpoints must pass.
#include "tests/fault/hostile_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "weights/checkpoint.h"

namespace fathom::testing {
namespace {

long peak_memory_mib() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

void expect_refusal(const std::filesystem::path& folder, const std::string& name,
                    const std::vector<std::string>& expected) {
  SCOPED_TRACE(name);
  constexpr long kAllowedMib = 512;
  constexpr size_t kLongestMessage = 512 * 1024;
  const long before = peak_memory_mib();
  const auto checkpoint = Checkpoint::open(folder);
  EXPECT_LT(peak_memory_mib() - before, kAllowedMib);
  ASSERT_FALSE(checkpoint.has_value());
  const std::string& message = checkpoint.error().message();
  EXPECT_LT(message.size(), kLongestMessage);
  for (const char c : message) {
    EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << message;
  }
  for (const std::string& part : expected) EXPECT_THAT(message, ::testing::HasSubstr(part));
}

void expect_refusal(const HostileCase& hostile) {
  const TemporaryFolder folder;
  for (const auto& [name, content] : hostile.files) folder.write(name, content);
  expect_refusal(folder.path(), hostile.name, hostile.expected);
}

}  // namespace fathom::testing
