#!/usr/bin/env bash
# Put a report into one comment of a pull request: the first run writes it, later ones update it.
set -euo pipefail

marker='<!-- tracetool energy report -->'
body=$(mktemp)
trap 'rm -f "$body"' EXIT
{ printf '%s\n' "$marker"; cat "$REPORT"; } >"$body"

found=$(gh api --paginate "repos/$REPOSITORY/issues/$NUMBER/comments" \
  --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1)
if [[ -n $found ]]; then
  gh api --method PATCH "repos/$REPOSITORY/issues/comments/$found" -F "body=@$body" --silent
else
  gh api --method POST "repos/$REPOSITORY/issues/$NUMBER/comments" -F "body=@$body" --silent
fi
