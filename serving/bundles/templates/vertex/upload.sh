#!/bin/sh
# Build the image, push it, and register the model with its routes: ./upload.sh REGION IMAGE
set -eu
region=$1
image=$2
docker build --platform linux/amd64 -t "$image" "$(dirname "$0")" # Vertex AI runs no other
docker push "$image"
exec gcloud ai models upload --region="$region" --display-name={{ name }} --container-image-uri="$image" \
  --container-predict-route={{ predict }} --container-health-route={{ ready }} --container-ports=8080
