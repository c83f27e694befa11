// Keeps the test output quiet.
#include "tests/unit/http/test_server.h"

#include "core/log.h"

namespace fathom {

void TestServer::spdlog_off() {
  spdlog::set_level(spdlog::level::off);
}

}  // namespace fathom
