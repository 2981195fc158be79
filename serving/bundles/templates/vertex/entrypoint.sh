#!/bin/sh
# Vertex AI says in AIP_* where it will ask. The routes are those that upload.sh registers the model with.
set -eu
predict={{ predict }}
health={{ ready }}
if [ "${AIP_PREDICT_ROUTE:-$predict}" != "$predict" ] || [ "${AIP_HEALTH_ROUTE:-$health}" != "$health" ]; then
  echo "the routes are $predict and $health, got ${AIP_PREDICT_ROUTE:-none} and ${AIP_HEALTH_ROUTE:-none}" >&2
  echo "  fix: upload the model with upload.sh, which names them" >&2
  exit 2
fi
exec transload serve /opt/model --name {{ name }} --host 0.0.0.0 --insecure --grpc-port 8500 --rest-port "${AIP_HTTP_PORT:-8080}"
