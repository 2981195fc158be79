#!/bin/sh
# Check a SageMaker endpoint: ./check-endpoint.sh ENDPOINT. It needs the AWS CLI, which signs the requests.
set -eu
endpoint=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/check.py" --write-requests "$work"
for request in "$work"/request-*.json; do
  number=${request##*-}
  aws sagemaker-runtime invoke-endpoint --endpoint-name "$endpoint" --content-type application/json \
    --body "fileb://$request" "$work/answer-$number"
done
python3 "$here/check.py" --read-answers "$work"
