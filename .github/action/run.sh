#!/usr/bin/env bash
# The script of action.yml. Inputs come as variables; lists are one item a line.
set -euo pipefail

# each FLAG TEXT: the flag once for every line of the text that is not empty.
each() {
  local flag=$1 line
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line%$'\r'}
    if [ -n "$line" ]; then arguments+=("$flag" "$line"); fi
  done <<<"$2"
}

# some FLAG TEXT: the flag if the text is not empty.
some() {
  if [ -n "$2" ]; then arguments+=("$1" "$2"); fi
}

case $COMMAND in
  check | verify) ;;
  *)
    echo "::error::command is '${COMMAND//[^a-z]/?}'; it can be check or verify"
    exit 2
    ;;
esac

arguments=("$COMMAND")
each --engine "$ENGINES"
each --serve-args "$SERVE_ARGS"
each --policy "$POLICY"
some --target "$TARGET"
if [ "$COMMAND" = verify ]; then
  some --samples "$SAMPLES"
  some --capture "$CAPTURE"
else
  some --integrity "$INTEGRITY"
fi
arguments+=(--format github --format "json=$JSON")
if [ -n "$SARIF" ]; then arguments+=(--format "sarif=$SARIF"); fi
if [ -n "$HTML" ]; then arguments+=(--format "html=$HTML"); fi

code=0
contract "${arguments[@]}" -- "$SPEC" || code=$?

verdict=unknown
if [ -f "$JSON" ]; then
  verdict=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' "$JSON")
fi
{
  echo "exit-code=$code"
  echo "verdict=$verdict"
  echo "report=${JSON//$'\n'/}"
} >>"$GITHUB_OUTPUT"
exit "$code"
