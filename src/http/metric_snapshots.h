// Metrics that are read when they are asked for: the engine's counters, the process.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "engine/engine.h"

namespace fathom {

void append_engine_metrics(const EngineMetrics& engine,
                           std::vector<prometheus::MetricFamily>& families);
// Memory, descriptors and processor time, under the names of Prometheus' own client libraries.
void append_process_metrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace fathom
