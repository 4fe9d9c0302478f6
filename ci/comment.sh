#!/usr/bin/env bash
# Put a report into one comment of a pull request: the first run writes it, later ones update it.
# Anyone can write the marker into a comment of their own: only one by the account of this token is updated.
set -euo pipefail

marker='<!-- tracetool energy report -->'
body=$(mktemp)
trap 'rm -f "$body"' EXIT
{ printf '%s\n' "$marker"; cat "$REPORT"; } >"$body"

me=$(gh api graphql -f query='query { viewer { login } }' --jq .data.viewer.login)
if [[ -z $me ]]; then
  echo "error: GitHub does not say whose token this is: no comment is written" >&2
  exit 1
fi

comments=$(gh api --paginate "repos/$REPOSITORY/issues/$NUMBER/comments" \
  --jq ".[] | select(.body | startswith(\"$marker\")) | [.id, .user.login] | @tsv")
own=
while IFS=$'\t' read -r id author; do
  if [[ -n $id && ($author == "$me" || $author == "${me}[bot]") ]]; then
    own=$id
    break
  fi
done <<<"$comments"

if [[ -n $own ]]; then
  gh api --method PATCH "repos/$REPOSITORY/issues/comments/$own" -F "body=@$body" --silent
else
  gh api --method POST "repos/$REPOSITORY/issues/$NUMBER/comments" -F "body=@$body" --silent
fi
