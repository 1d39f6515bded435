#' Convert text to tokens
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param text Character vector. A single text must be valid.
#' @param add_special TRUE adds the tokens that the model expects at the beginning and end of a
#'   text, such as BOS.
#' @param parse_special TRUE reads the texts of special tokens, such as `<|im_end|>`, as these
#'   tokens; FALSE as plain text.
#' @returns An integer vector for a single text. For any other number of texts a list of integer
#'   vectors, one per text, with the names of `text`. In a list, the tokens of NA are NA, and so are
#'   the tokens of a text that is not valid in its encoding, with a warning.
#' @seealso [detokenize()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' tokenize(model, "Hello, herd!")
#' lengths(tokenize(model, c(a = "one", b = "one two three")))
#' close(model)
tokenize <- function(model, text, add_special = TRUE, parse_special = FALSE) {
  check_given(text)
  object <- check_model(model)
  raw <- if (is.factor(text)) as.character(text) else text
  if (!is.character(raw) || length(raw) == 1) {
    check_text(raw, "text")
  }
  texts <- as_utf8(raw)
  bad <- which(is.na(texts) & !is.na(raw))
  if (length(bad) > 0) {
    warn(
      c(
        paste(
          "{length(bad)} of {length(texts)} text{?s}",
          "{cli::qty(length(bad))}{?has/have} the tokens NA."
        ),
        x = "Text {bad[[1]]}: {invalid_text}"
      ),
      "failed"
    )
  }
  there <- !is.na(texts)
  options <- py_arguments("add_special", "parse_special")
  value <- py_call(
    "tokenize",
    object,
    as_py_list(texts[there]),
    !!!options
  )
  tokens <- rep(list(NA_integer_), length(texts))
  tokens[there] <- lapply(value, as.integer)
  if (length(tokens) == 1) tokens[[1]] else stats::setNames(tokens, names(text))
}

#' Convert tokens to text
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param tokens Integer vector of token ids, or a list of such vectors.
#' @param remove_special TRUE removes special tokens at the beginning and end.
#' @param unparse_special TRUE writes special tokens as text; FALSE omits them.
#' @returns A string for an integer vector. For a list a character vector of the same length, with
#'   its names.
#' @seealso [tokenize()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' detokenize(model, tokenize(model, "Hello, herd!"))
#' close(model)
detokenize <- function(
  model,
  tokens,
  remove_special = FALSE,
  unparse_special = FALSE
) {
  check_given(tokens)
  object <- check_model(model)
  ids <- if (is.list(tokens)) tokens else list(tokens)
  ids <- lapply(ids, check_tokens, arg = "tokens")
  options <- py_arguments("remove_special", "unparse_special")
  value <- py_call("detokenize", object, unname(ids), !!!options)
  stats::setNames(as_text(value), if (is.list(tokens)) names(tokens))
}

# Converts token ids for Python, which checks them: R does not know the size of the vocabulary.
check_tokens <- function(x, arg) {
  whole <- is.numeric(x) && all(is.finite(x)) && all(x == trunc(x))
  if (!whole || any(abs(x) > .Machine$integer.max)) {
    abort_argument(arg, "token ids, which are whole numbers", x)
  }
  as_py_list(as.integer(x))
}
