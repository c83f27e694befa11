// The grammar backend on xgrammar. Its exceptions end here; it never logs and never aborts.
#if FATHOM_HAVE_XGRAMMAR

#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <optional>
#include <utility>

#include <compiled_grammar_impl.h>
#include "core/clock.h"
#include "grammar/backend.h"
#include "grammar/grammar.h"

namespace xgrammar {

namespace {
// What the library warns of while this thread compiles: constraints that it leaves out.
thread_local std::vector<std::string>* warnings = nullptr;
constexpr int kWarningLevel = 2;
}  // namespace

// The hooks of XGRAMMAR_LOG_CUSTOMIZE.
void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw XGrammarError(message);
}
void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  if (warnings != nullptr && level == kWarningLevel) warnings->push_back(message);
}

}  // namespace xgrammar

namespace fathom {

namespace {

// Masks of a grammar's states are made when first needed; this much time is spent on them ahead, on
// the caller's thread instead of the engine's.
constexpr double kWarmUpSeconds = 0.5;
constexpr int kMaxStates = 200'000;  // of the automata of one grammar
constexpr int64_t kRuleCacheBytes = 192 << 20;

// Runs what may throw. The library's messages are about the caller's grammar.
template <typename F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return error(Code::kOutOfMemory, "There is not enough memory to compile the grammar.");
  } catch (const std::exception& e) {
    return error(Code::kInvalidArgument,
                 fmt::format("The grammar cannot be compiled: {}", e.what()));
  }
}

class XMatcher final : public Matcher {
 public:
  explicit XMatcher(xgrammar::GrammarMatcher matcher, int32_t size)
      : matcher_(std::move(matcher)), size_(size) {}

  std::unique_ptr<Matcher> clone() const override {
    return std::make_unique<XMatcher>(matcher_.Fork(), size_);
  }

  Status allowed(std::vector<uint32_t>* bitmask) override {
    return status([&] {
      int64_t shape = (static_cast<int64_t>(size_) + 31) / 32;
      bitmask->assign(static_cast<size_t>(shape), 0);
      DLTensor tensor{bitmask->data(),
                      DLDevice{kDLCPU, 0},
                      1,
                      xgrammar::GetBitmaskDLType(),
                      &shape,
                      nullptr,
                      0};
      matcher_.FillNextTokenBitmask(&tensor);
      return Status();
    });
  }

  Status accept(int32_t id) override {
    return status([&] {
      if (matcher_.AcceptToken(id)) return Status();
      return Status(Code::kInternal, fmt::format("The grammar does not allow token {} here.", id));
    });
  }

  bool accept_text(std::string_view text) override {
    return status([&] {
             return matcher_.AcceptString(std::string(text))
                        ? Status()
                        : Status(Code::kInvalidArgument, "The grammar does not allow this text.");
           })
        .ok();
  }

  bool complete() const override { return matcher_.IsCompleted(); }

 private:
  template <typename F>
  static Status status(F&& f) {
    try {
      return f();
    } catch (const std::exception& e) {
      return Status(Code::kInternal, fmt::format("The grammar's matcher failed: {}", e.what()));
    }
  }

  xgrammar::GrammarMatcher matcher_;
  int32_t size_;
};

class XFactory final : public MatcherFactory {
 public:
  XFactory(xgrammar::CompiledGrammar grammar, int32_t size)
      : grammar_(std::move(grammar)), size_(size) {}

  Result<std::unique_ptr<Matcher>> make() const override {
    return guarded([&]() -> Result<std::unique_ptr<Matcher>> {
      return std::make_unique<XMatcher>(xgrammar::GrammarMatcher(grammar_), size_);
    });
  }
  size_t memory_bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
  int32_t size_;
};

class XBackend final : public GrammarBackend {
 public:
  explicit XBackend(std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

  Result<std::shared_ptr<const MatcherFactory>> compile(const GrammarSource& source) override {
    std::vector<std::string> warnings;
    xgrammar::warnings = &warnings;
    auto result = guarded([&] { return compile_unguarded(source); });
    xgrammar::warnings = nullptr;
    if (!result) return result;
    for (const std::string& warning : warnings) {
      // A union whose members cannot be told apart is held to "one of them at least".
      if (source.kind != GrammarSource::Kind::kRegex &&
          warning.find("oneOf") != std::string::npos) {
        continue;
      }
      return error(Code::kInvalidArgument,
                   fmt::format("The grammar cannot be held in full: {}.", warning));
    }
    return result;
  }

 private:
  Result<std::shared_ptr<const MatcherFactory>> compile_unguarded(const GrammarSource& source) {
    xgrammar::GrammarCompiler& compiler = compiler_for(source.markup);
    xgrammar::CompiledGrammar grammar = compile_with(compiler, source);
    FATHOM_TRY(warm_up(*grammar.ImplPtr()));
    return std::make_shared<XFactory>(std::move(grammar), vocabulary_->size());
  }

  static xgrammar::CompiledGrammar compile_with(xgrammar::GrammarCompiler& compiler,
                                                const GrammarSource& source) {
    switch (source.kind) {
      case GrammarSource::Kind::kRegex:
        return compiler.CompileRegex(source.text);
      case GrammarSource::Kind::kStructuralTag:
        return compiler.CompileStructuralTag(source.text);
      case GrammarSource::Kind::kSchema:
        break;
    }
    return compiler.CompileJSONSchema(source.text, /*any_whitespace=*/true, std::nullopt,
                                      std::nullopt, source.strict, source.max_whitespace);
  }

  static Status warm_up(xgrammar::CompiledGrammar::Impl& grammar) {
    const auto& parts = grammar.grammar;
    const double deadline = now_seconds() + kWarmUpSeconds;
    int64_t states = 0;
    for (int32_t rule = 0; rule < static_cast<int32_t>(parts->NumRules()); ++rule) {
      if (parts->per_rule_fsms[rule]) states += parts->per_rule_fsms[rule]->GetNodeNum();
    }
    if (states > kMaxStates) {
      return Status(Code::kInvalidArgument,
                    fmt::format("The grammar needs {} states; at most {} are allowed. Make the "
                                "schema smaller, or its lengths and counts.",
                                states, kMaxStates));
    }
    for (int32_t rule = 0; rule < static_cast<int32_t>(parts->NumRules()); ++rule) {
      if (!parts->per_rule_fsms[rule]) continue;
      const auto& fsm = parts->per_rule_fsms[rule]->GetFsm();
      std::unordered_set<int> reachable;
      fsm.GetReachableStates(&reachable);
      xgrammar::ParserState state(rule, parts->GetRule(rule).body_expr_id, 0,
                                  xgrammar::ParserState::kNoPrevInputPos);
      for (const int element : reachable) {
        if (now_seconds() > deadline) return Status();
        if (!fsm.IsScanableState(element)) continue;
        state.element_id = element;
        grammar.GetAdaptiveTokenMask(state);
      }
    }
    return Status();
  }

  // The tokens as text. Control tokens are none: those that a grammar names by id get bytes that no
  // text of characters contains. Grammars in DSML mark-up name none, but spell their tags, and
  // their raw values are texts of any bytes: only DSML's own token is text there.
  xgrammar::GrammarCompiler& compiler_for(bool markup) {
    auto& compiler = compilers_[markup ? 1 : 0];
    if (compiler) return *compiler;
    std::vector<std::string> tokens(static_cast<size_t>(vocabulary_->size()));
    for (int32_t id = 0; id < vocabulary_->size(); ++id) {
      std::string& token = tokens[static_cast<size_t>(id)];
      token = vocabulary_->bytes(id);
      if (!vocabulary_->is_control(id) || token.empty()) continue;
      if (!markup) {
        token = fmt::format("\xFF{}", id);
      } else if (token.find("DSML") == std::string::npos) {
        token.clear();
      }
    }
    const xgrammar::TokenizerInfo info(tokens, xgrammar::VocabType::RAW, vocabulary_->size(),
                                       vocabulary_->stop_ids());
    // One thread: what it throws can be caught, and a request's work stays its own. The compiler's
    // own cache of grammars is off in this mode; GrammarCompiler has one.
    compiler.emplace(info, /*max_threads=*/1, /*cache_enabled=*/true, kRuleCacheBytes,
                     /*enable_dynamic_compilation=*/true);
    return *compiler;
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::optional<xgrammar::GrammarCompiler> compilers_[2];
};

}  // namespace

bool structured_output_available() {
  return true;
}

Result<std::unique_ptr<GrammarBackend>> GrammarBackend::create(
    std::shared_ptr<const Vocabulary> vocabulary) {
  return std::make_unique<XBackend>(std::move(vocabulary));
}

}  // namespace fathom

#endif
