// /openapi.json: the description of all routes, made from the schemas that validate them.
#pragma once

#include "http/api/json.h"
#include "http/api/service.h"

namespace fathom::api {

Json openapi_document(const Service& service);

}  // namespace fathom::api
