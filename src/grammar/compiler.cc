// GrammarCompiler: specs to grammars, checked, bounded and remembered.
#include <fmt/format.h>
#include <pthread.h>

#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "grammar/backend.h"
#include "grammar/grammar.h"
#include "grammar/schema_check.h"
#include "grammar/structured_mask.h"
#include "grammar/tool_grammar.h"

namespace fathom {

namespace {

constexpr size_t kMaxGrammars = 64;
constexpr size_t kMaxGrammarBytes = size_t{512} << 20;
// Compilers of grammars are recursive in the schema's depth, which its references add to.
constexpr size_t kStackBytes = size_t{256} << 20;

// Runs `f` on a thread of its own with a large stack, and waits. The memory is only reserved.
Status run_on_large_stack(std::function<void()> f) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return Status(Code::kOutOfMemory, "No thread could be made to compile the grammar.");
  }
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  const int failed = pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        (*static_cast<std::function<void()>*>(argument))();
        return nullptr;
      },
      &f);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    return Status(Code::kOutOfMemory, "No thread could be started to compile the grammar.");
  }
  pthread_join(thread, nullptr);
  return Status();
}

class Compiled final : public CompiledGrammar {
 public:
  explicit Compiled(StructuredMask::Form form) : form_(std::move(form)) {}

  size_t memory_bytes() const override { return form_.grammar->memory_bytes(); }
  Result<std::shared_ptr<TokenMask>> make_mask(ReasoningStart reasoning) const override {
    FATHOM_ASSIGN(auto matcher, form_.grammar->make());
    return std::make_shared<StructuredMask>(form_, std::move(matcher), reasoning);
  }

 private:
  StructuredMask::Form form_;
};

// Everything that makes two specs different, in one text.
std::string key_of(const GrammarSpec& spec) {
  std::string key = fmt::format("{} {} {} {} {} {} ", static_cast<int>(spec.kind), spec.strict,
                                static_cast<int>(spec.tool_format), spec.tools_optional,
                                spec.parallel, spec.text.size());
  key += spec.text;
  for (const ToolGrammar& tool : spec.tools) {
    key += fmt::format(" {} {} ", tool.name.size(), tool.parameters.size());
    key += tool.name;
    key += tool.parameters;
  }
  return key;
}

Status check_tools_schemas(const GrammarSpec& spec) {
  size_t bytes = 0;
  for (const ToolGrammar& tool : spec.tools) {
    bytes += tool.parameters.size();
    if (tool.parameters.empty()) continue;
    FATHOM_RETURN_IF_ERROR(check_schema(tool.parameters)
                               .with_context(fmt::format("The parameters of tool {}", tool.name)));
  }
  if (bytes <= SchemaLimits::kMaxBytes) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("The tools' parameters have {} bytes together; at most {} are allowed.",
                            bytes, SchemaLimits::kMaxBytes));
}

}  // namespace

ReasoningStart reasoning_start(std::string_view prompt, const OutputFormat& format) {
  if (!format.reasoning) return ReasoningStart::kNone;
  if (opens_reasoning(prompt)) return ReasoningStart::kOpen;
  const size_t end = prompt.find_last_not_of(" \t\n\r");
  const bool closed =
      end != std::string_view::npos && prompt.substr(0, end + 1).ends_with("</think>");
  return closed ? ReasoningStart::kNone : ReasoningStart::kMayOpen;
}

struct GrammarCompiler::Impl {
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
  };

  std::shared_ptr<const Vocabulary> vocabulary;
  std::mutex compiling;  // held for a compilation; the backend is behind it
  std::unique_ptr<GrammarBackend> backend;
  Status unavailable;  // why there is no backend
  std::mutex remembering;
  std::list<Entry> entries;  // the one used last in front
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key;

  std::shared_ptr<const CompiledGrammar> find(const std::string& key) {
    const std::lock_guard lock(remembering);
    const auto found = by_key.find(key);
    if (found == by_key.end()) return nullptr;
    entries.splice(entries.begin(), entries, found->second);
    return found->second->grammar;
  }

  void remember(std::string key, std::shared_ptr<const CompiledGrammar> grammar) {
    const std::lock_guard lock(remembering);
    entries.push_front({std::move(key), std::move(grammar)});
    by_key[entries.front().key] = entries.begin();
    size_t bytes = 0;
    for (const Entry& entry : entries) bytes += entry.grammar->memory_bytes();
    while (entries.size() > kMaxGrammars || (bytes > kMaxGrammarBytes && entries.size() > 1)) {
      bytes -= std::min(bytes, entries.back().grammar->memory_bytes());
      by_key.erase(entries.back().key);
      entries.pop_back();
    }
  }

  // What the backend gets; sets the parts of the form that the spec decides.
  Result<GrammarSource> source(const GrammarSpec& spec, StructuredMask::Form* form) const {
    GrammarSource source;
    source.max_whitespace = kMaxWhitespace;
    source.strict = spec.strict;
    form->gap = true;
    switch (spec.kind) {
      case GrammarSpec::Kind::kJsonObject:
        source.text = R"({"type":"object"})";
        source.strict = false;
        return source;
      case GrammarSpec::Kind::kJsonSchema:
        FATHOM_TRY(check_schema(spec.text));
        source.text = spec.text;
        return source;
      case GrammarSpec::Kind::kRegex:
        FATHOM_TRY(check_pattern(spec.text));
        source.kind = GrammarSource::Kind::kRegex;
        source.text = spec.text;
        return source;
      case GrammarSpec::Kind::kTools:
        break;
    }
    FATHOM_TRY(check_tools_schemas(spec));
    FATHOM_ASSIGN(ToolStructure tools, tool_structure(spec, *vocabulary));
    source.kind = GrammarSource::Kind::kStructuralTag;
    source.markup = spec.tool_format >= ToolFormat::kDeepSeekV32;
    source.text = std::move(spec.tools_optional ? tools.tag_after_opening : tools.tag);
    form->gap = false;
    if (spec.tools_optional) form->opening = std::move(tools.opening);
    return source;
  }

  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) {
    StructuredMask::Form form;
    form.vocabulary = vocabulary;
    form.think_id = vocabulary->marker("<think>").value_or(-1);
    FATHOM_ASSIGN(const GrammarSource source, this->source(spec, &form));
    Result<std::shared_ptr<const MatcherFactory>> grammar = nullptr;
    FATHOM_TRY(run_on_large_stack([&] { grammar = backend->compile(source); }));
    FATHOM_ASSIGN(form.grammar, std::move(grammar));
    return std::make_shared<Compiled>(std::move(form));
  }
};

GrammarCompiler::GrammarCompiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<std::unique_ptr<GrammarCompiler>> GrammarCompiler::create(const Tokenizer& tokenizer,
                                                                 std::vector<int32_t> stop_ids) {
  FATHOM_ASSIGN(Vocabulary vocabulary, Vocabulary::create(tokenizer, std::move(stop_ids)));
  auto impl = std::make_unique<Impl>();
  impl->vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  auto backend = GrammarBackend::create(impl->vocabulary);
  if (backend) {
    impl->backend = std::move(*backend);
  } else {
    impl->unavailable = std::move(backend).error();
  }
  return std::unique_ptr<GrammarCompiler>(new GrammarCompiler(std::move(impl)));
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::compile(const GrammarSpec& spec) {
  FATHOM_TRY(impl_->unavailable);
  std::string key = key_of(spec);
  if (auto known = impl_->find(key)) return known;
  const std::lock_guard lock(impl_->compiling);
  if (auto known = impl_->find(key)) return known;  // made while this call waited
  FATHOM_ASSIGN(auto grammar, impl_->compile(spec));
  impl_->remember(std::move(key), grammar);
  return grammar;
}

}  // namespace fathom
