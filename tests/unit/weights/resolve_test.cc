// Model arguments: folders, cache folders, org/name with and without a revision.
#include "weights/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tests/unit/weights/test_files.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// A cache with two snapshots of org/model, and an environment that points to it; restored at the
// end.
class Resolve : public ::testing::Test {
 protected:
  static constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                               "XDG_CACHE_HOME", "HOME"};
  static constexpr const char* kRepo = "models--org--model";

  Resolve() {
    for (const char* name : kVariables) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? std::optional<std::string>() : value);
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.path().c_str(), 1);
    fill(cache());
  }
  ~Resolve() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i]) {
        ::setenv(kVariables[i], saved_[i]->c_str(), 1);
      } else {
        ::unsetenv(kVariables[i]);
      }
    }
  }

  fs::path cache() const { return folder_.path() / ".cache/huggingface/hub"; }
  fs::path snapshot(const std::string& hash) const { return cache() / kRepo / "snapshots" / hash; }

  void fill(const fs::path& cache) const {
    const fs::path repo = fs::relative(cache, folder_.path()) / kRepo;
    folder_.write((repo / "snapshots/aaaa1111/config.json").string(), "{}");
    folder_.write((repo / "snapshots/aabb2222/config.json").string(), "{}");
    folder_.write((repo / "refs/main").string(), "aaaa1111\n");
    folder_.write((repo / "refs/pr/3").string(), "aabb2222");
    using namespace std::chrono_literals;
    const fs::path snapshots = cache / kRepo / "snapshots";
    fs::last_write_time(snapshots / "aaaa1111", fs::file_time_type::clock::now() - 1h);
    fs::last_write_time(snapshots / "aabb2222", fs::file_time_type::clock::now());
  }

  static fs::path resolved(const std::string& model) {
    const auto path = resolve_model(model);
    EXPECT_TRUE(path.has_value()) << path.error().message();
    return path ? fs::weakly_canonical(*path) : fs::path();
  }
  static std::string failure(const std::string& model) {
    const auto path = resolve_model(model);
    EXPECT_FALSE(path.has_value()) << *path;
    return path ? "" : path.error().message();
  }

  TemporaryFolder folder_;
  std::vector<std::optional<std::string>> saved_;
};

TEST_F(Resolve, TakesAFolderWithAConfig) {
  folder_.write("mine/config.json", "{}");
  EXPECT_EQ(resolved((folder_.path() / "mine").string()), folder_.path() / "mine");
  EXPECT_EQ(resolved("~/mine"), folder_.path() / "mine");
  EXPECT_EQ(resolved("~/mine/"), folder_.path() / "mine");
}

TEST_F(Resolve, SaysWhyAConfigCannotBeUsed) {
  folder_.write("other/readme", "");
  EXPECT_THAT(failure((folder_.path() / "other").string()), HasSubstr("has no config.json"));
  fs::create_symlink("config.json", folder_.path() / "other/config.json");  // a loop
  EXPECT_THAT(failure((folder_.path() / "other").string()), HasSubstr("cannot be opened"));
  fs::create_directories(folder_.path() / "odd/config.json");
  EXPECT_THAT(failure((folder_.path() / "odd").string()), HasSubstr("not a regular file"));
}

TEST_F(Resolve, TakesPathsInsideTheCache) {
  EXPECT_EQ(resolved(snapshot("aabb2222").string()), snapshot("aabb2222"));
  EXPECT_EQ(resolved((cache() / kRepo).string()), snapshot("aaaa1111"));
  EXPECT_EQ(resolved((cache() / kRepo / "snapshots").string()), snapshot("aaaa1111"));
  EXPECT_EQ(resolved((cache() / kRepo / "snapshots/").string()), snapshot("aaaa1111"));
}

TEST_F(Resolve, FindsANameByRefsMainElseTheNewest) {
  EXPECT_EQ(resolved("org/model"), snapshot("aaaa1111"));
  fs::remove(cache() / kRepo / "refs/main");
  EXPECT_EQ(resolved("org/model"), snapshot("aabb2222"));
}

TEST_F(Resolve, PassesOverAnIncompleteSnapshotOfMain) {
  fs::remove(snapshot("aaaa1111") / "config.json");
  EXPECT_EQ(resolved("org/model"), snapshot("aabb2222"));
}

TEST_F(Resolve, FindsRevisions) {
  EXPECT_EQ(resolved("org/model@main"), snapshot("aaaa1111"));
  EXPECT_EQ(resolved("org/model@refs/pr/3"), snapshot("aabb2222"));
  EXPECT_EQ(resolved("org/model@pr/3"), snapshot("aabb2222"));
  EXPECT_EQ(resolved("org/model@aabb2222"), snapshot("aabb2222"));
  EXPECT_EQ(resolved("org/model@aab"), snapshot("aabb2222"));
  EXPECT_THAT(failure("org/model@aa"),
              AllOf(HasSubstr("several"), HasSubstr("aaaa1111"), HasSubstr("aabb2222")));
  EXPECT_THAT(failure("org/model@v2"), AllOf(HasSubstr("no revision v2"), HasSubstr("aaaa1111")));
  EXPECT_THAT(failure("org/model@../../x"), HasSubstr("no revision"));
}

TEST_F(Resolve, HonoursTheVariablesInTheirOrder) {
  EXPECT_THAT(failure("org/other"), HasSubstr(cache().string()));
  ::setenv("XDG_CACHE_HOME", (folder_.path() / "xdg").c_str(), 1);
  EXPECT_THAT(failure("org/model"), HasSubstr("xdg/huggingface/hub/models--org--model"));
  ::setenv("HF_HOME", "~/home", 1);
  EXPECT_THAT(failure("org/model"), HasSubstr((folder_.path() / "home/hub").string()));
  fill(folder_.path() / "cache");
  ::setenv("HF_HUB_CACHE", (folder_.path() / "cache").c_str(), 1);
  EXPECT_EQ(resolved("org/model"), folder_.path() / "cache" / kRepo / "snapshots/aaaa1111");
  ::setenv("HF_HUB_CACHE", "", 1);  // empty is unset
  EXPECT_THAT(failure("org/model"), HasSubstr("home/hub"));
}

TEST_F(Resolve, SaysWhereItLookedAndWhatToDo) {
  EXPECT_THAT(failure("org/other"),
              AllOf(HasSubstr("org/other"), HasSubstr("models--org--other"), HasSubstr("download"),
                    HasSubstr((fs::current_path() / "org/other").string())));
  EXPECT_THAT(failure("/no/such/folder"), HasSubstr("there is no folder /no/such/folder"));
  EXPECT_THAT(failure(""), HasSubstr("not named"));
  EXPECT_THAT(failure("org/../model"), HasSubstr("there is no folder"));
  EXPECT_THAT(failure(folder_.path().string()), HasSubstr("has no config.json"));
  const fs::path file = folder_.write("model.safetensors", "");
  EXPECT_THAT(failure(file.string()), HasSubstr("is a file; give the folder"));
}

TEST_F(Resolve, SaysWhenADownloadIsIncomplete) {
  fs::remove(snapshot("aaaa1111") / "config.json");
  fs::remove(snapshot("aabb2222") / "config.json");
  EXPECT_THAT(failure("org/model"), HasSubstr("incomplete"));
}

}  // namespace
}  // namespace fathom
