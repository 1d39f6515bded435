#' What to say to a model about the data it shall write
#'
#' A schema holds answers to their form, but a model does not see it. This writes an
#' instruction that names the fields with their descriptions, for the prompt or the system
#' message.
#'
#' @param schema As for [generate_parallel()]: a type such as [type_object()] makes, a JSON
#'   Schema, or a list with several of them.
#' @returns A string; for a list of schemas a character vector with one for each of them.
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
