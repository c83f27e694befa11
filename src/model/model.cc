// A loaded model: joins config, weights, cache layout, threads and the forward pass.
#include "model/model.h"

#include <xxhash.h>

#include <algorithm>
#include <new>

#include "model/blocks.h"
#include "model/config/config.h"
#include "model/describe.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/plan_check.h"

namespace fathom {
namespace {

// Raised whenever a kernel's or block's sequence of operations changes: fingerprints differ then.
constexpr uint64_t kNumericContract = 1;

// A step runs through the layers in pieces of this many rows, which bounds the workspace. A row
// sees only earlier positions, so pieces change nothing but the order of work; at 512 rows the
// products are limited by arithmetic, not by reading weights again.
constexpr int64_t kMaxRows = 512;

std::vector<int64_t> layer_offsets(const ModelConfig& config, DType kv_dtype) {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (const LayerSpec& layer : config.layers) {
    offsets.push_back(bytes);
    bytes += kv_entry_width(layer.attention) * static_cast<int64_t>(dtype_size(kv_dtype));
  }
  return offsets;
}

void collect_ropes(const ModelConfig& config, ForwardModel& forward) {
  std::vector<RopeSpec> specs;
  for (const LayerSpec& layer : config.layers) {
    const RopeSpec& spec = layer.attention.rope;
    const auto found = std::find(specs.begin(), specs.end(), spec);
    forward.layer_rope.push_back(static_cast<int>(found - specs.begin()));
    if (found != specs.end()) continue;
    specs.push_back(spec);
    forward.ropes.push_back(make_rope_table(spec));
  }
}

}  // namespace

struct Model::Impl {
  Impl(const ModelConfig& model_config, const ModelOptions& options)
      : config(model_config),
        pool(std::make_unique<ThreadPool>(options.threads)),
        ctx(std::make_unique<kernels::KernelContext>(pool.get(), options.isa)) {
    forward.config = &config;
    forward.weights = &loaded.weights;
    forward.kv_dtype = options.kv_dtype;
    forward.layer_offset = layer_offsets(config, options.kv_dtype);
    layout = kv_layout_of(config, options.kv_dtype);
    collect_ropes(config, forward);
  }

  void run(const StepPlan& plan, const KvMemory& kv, const StepOutput& out) {
    const PageTable& table = plan.page_tables[0];
    work.page_tables.clear();
    for (int32_t s = 0; s < table.sequence_count(); ++s) {
      work.page_tables.push_back(table.pages.data() + table.begin[static_cast<size_t>(s)]);
    }
    if (out.trace != nullptr) {
      *out.trace = StepTrace();
      out.trace->hidden.resize(config.layers.size());
    }
    size_t done = 0;  // logit rows
    for (int64_t first = 0; first < plan.rows(); first += kMaxRows) {
      const RowRange range{first, std::min(kMaxRows, plan.rows() - first)};
      forward_rows(forward, *ctx, work, plan, kv, range, out.trace);
      done = run_head(plan, range, out, done);
    }
  }

  // Logits of the logit rows within the range; returns how many are done.
  size_t run_head(const StepPlan& plan, RowRange range, const StepOutput& out, size_t done) {
    size_t end = done;
    while (end < plan.logit_rows.size() && plan.logit_rows[end] < range.first + range.count) ++end;
    if (end == done || (out.logits == nullptr && out.hidden == nullptr)) return end;
    HeadRows rows;
    rows.rows = std::span(plan.logit_rows).subspan(done, end - done);
    rows.first = range.first;
    if (out.hidden != nullptr) {
      rows.hidden = out.hidden + done * static_cast<size_t>(config.hidden_size);
    }
    if (out.logits != nullptr) {
      rows.logits = out.logits + done * static_cast<size_t>(config.vocab_size);
    }
    forward_head(forward, *ctx, work, rows);
    return end;
  }

  ModelConfig config;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::KernelContext> ctx;
  LoadedWeights loaded;
  ForwardModel forward;
  KvLayout layout;
  Workspace work;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(const std::filesystem::path& model_dir,
                                           const ModelOptions& options) {
  if (options.kv_dtype != DType::kF32 && options.kv_dtype != DType::kBF16) {
    return error(Code::kInvalidArgument,
                 std::string("the cache can be F32 or BF16, not ") + dtype_name(options.kv_dtype));
  }
  if (!kernels::isa_supported(options.isa)) {
    return error(Code::kUnsupported, std::string("this processor has no ") +
                                         kernels::isa_name(options.isa) +
                                         "; leave the instruction set to fathom");
  }
  FATHOM_ASSIGN(const ModelConfig config, read_config(model_dir, options.config_overrides));
  try {
    auto impl = std::make_unique<Impl>(config, options);
    if (options.dummy_weights) {
      FATHOM_TRY(make_dummy_weights(impl->config, *impl->pool, options.progress, impl->loaded));
    } else {
      FATHOM_TRY(load_weights(model_dir, impl->config, *impl->pool,
                              {options.mmap, options.progress}, impl->loaded));
    }
    return std::unique_ptr<Model>(new Model(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return error(Code::kOutOfMemory, "not enough memory to load " + model_dir.string());
  }
}

const ModelConfig& Model::config() const {
  return impl_->config;
}
const KvLayout& Model::kv_layout() const {
  return impl_->layout;
}
uint64_t Model::weight_bytes() const {
  return impl_->loaded.arena.size();
}
ThreadPool& Model::pool() {
  return *impl_->pool;
}
kernels::KernelContext& Model::kernels() {
  return *impl_->ctx;
}

Status Model::set_compute(int threads, kernels::Isa isa) {
  if (!kernels::isa_supported(isa)) {
    return {Code::kUnsupported,
            std::string("this processor has no ") + kernels::isa_name(isa) + " instructions"};
  }
  impl_->ctx.reset();  // points at the pool
  impl_->pool = std::make_unique<ThreadPool>(threads);
  impl_->ctx = std::make_unique<kernels::KernelContext>(impl_->pool.get(), isa);
  return {};
}

uint64_t Model::fingerprint() const {
  // Not the instruction set and not the threads: they do not enter the arithmetic.
  const uint64_t parts[] = {kNumericContract, impl_->loaded.content_hash, impl_->config.source_hash,
                            static_cast<uint64_t>(impl_->forward.kv_dtype)};
  return XXH3_64bits(parts, sizeof(parts));
}

Status Model::step(const StepPlan& plan, const std::vector<KvMemory>& kv, const StepOutput& out) {
  FATHOM_RETURN_IF_ERROR(check_plan(impl_->config, impl_->layout, plan, kv));
  try {
    impl_->run(plan, kv[0], out);
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, "not enough memory for the workspace of this step"};
  }
  return {};
}

}  // namespace fathom
