// The routes that need no model: /health, /ready, /metrics, /version, the page at /.
#pragma once

#include <string>
#include <vector>

#include "http/exchange.h"
#include "http/gate.h"
#include "http/metrics.h"

namespace fathom {

// `gate` and `metrics` must outlive the routes. None of them needs a key.
std::vector<Route> builtin_routes(Gate& gate, Metrics& metrics, const std::string& version);

}  // namespace fathom
