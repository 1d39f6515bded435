#' Describe a schema for the prompt
#'
#' A schema constrains the form of answers, but the model does not see it. `schema_prompt()` writes
#' an instruction that names the fields and their descriptions, for the prompt or the system
#' message.
#'
#' @param schema A schema, see [generate_parallel()]: a type such as [type_object()], a JSON Schema,
#'   or a list of schemas.
#' @returns A string; for a list of schemas a character vector with one element per schema.
#' @seealso [type_object()], [generate_parallel()]
#' @export
#' @examplesIf llamaherd_available()
#' schema <- type_object(
#'   reason = type_string("Why, in one sentence."),
#'   sentiment = type_enum(c("positive", "negative"))
#' )
#' cat(schema_prompt(schema))
schema_prompt <- function(schema) {
  error_call <- rlang::current_env()
  rlang::check_required(schema)
  n <- if (is_per_prompt_schema(schema)) length(schema) else 1L
  texts <- check_schema(schema, "schema", n, error_call)
  if (is.null(texts) || any(vapply(as.list(unclass(texts)), is.null, logical(1)))) {
    abort_argument("schema", "a type or a JSON Schema", schema, error_call)
  }
  as_text(py_call("schema_prompt", as_py_list(unclass(texts)), error_call = error_call))
}
