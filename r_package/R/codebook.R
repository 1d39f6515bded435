#' A codebook: what is asked of each text, and what may be answered
#'
#' @description
#' A codebook says in words what is to be done with each text, which labels there are and what
#' they mean, and shows coded examples. [annotate_texts()] codes a column of texts by it,
#' [prompt_preview()] shows what the model reads.
#'
#' `write_codebook()` makes a YAML file of it that people can edit and compare,
#' `read_codebook()` reads one. In such a file every value is text: a label called `no` is not
#' FALSE.
#'
#' @param question What is to be done, in words for the model.
#' @param labels Character vector of labels, or definitions with labels as names:
#'   `c(negative = "Complains or attacks.", neutral = "")`. A factor stands for its levels; an
#'   ordered one makes `type` `"ordinal"`. Numbers, such as 0 and 1, become the labels `"0"` and
#'   `"1"`.
#' @param type `"label"`: one of them; `"ordinal"`: one, and their order has a meaning, from the
#'   least to the most; `"multiple"`: any number of them; `"fields"`: data by `schema`, which is
#'   the default where there is one.
#' @param schema For `"fields"`: as in [generate_parallel()], such as [type_object()] makes.
#' @param examples Texts that were coded already: a data frame with columns `text`, `label` and,
#'   if you like, `reason`, which may be NA. With several labels a text, or fields, `label` is a
#'   list column, of character vectors or of named lists.
#' @param text_role,answer_role What the prompt calls a text and an answer; NULL: `"Text"` and
#'   `"Label"`, in its language.
#' @param language Language of the prompt's fixed words. The model is also told that the texts
#'   are in it: `"en"`, `"de"`, `"fr"`, `"es"`, or another one with all of
#'   its `words`. NULL: English words, and the model is told nothing.
#' @param words Replaces the fixed words of the prompt, such as "Labels:": a named character
#'   vector; names are `text`,
#'   `answer`, `reason`, `labels`, `one`, `ordinal`, `several`, `fields`, `yes`, `no`, `told`.
#' @param system Text of a system message; without `chat` it comes first in the prompt.
#' @returns `codebook()` and `read_codebook()`: a `llamaherd_codebook`, which prints as a page.
#'   It is a list with `question`, `labels` (definitions, with labels as names), `type`,
#'   `hash` (SHA-256 of its content) and `content`, all of it as JSON.
#'
#'   `write_codebook()`: its `codebook`, invisibly.
#' @seealso [annotate_texts()], [prompt_preview()], [robustness()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' tone <- codebook(
#'   "What is the tone of the text?",
#'   labels = c(
#'     negative = "Complains, attacks or regrets.",
#'     neutral = "Reports without a judgement.",
#'     positive = "Praises or enjoys."
#'   ),
#'   type = "ordinal",
#'   examples = data.frame(
#'     text = c("The meeting starts at nine.", "What a wonderful day!"),
#'     label = c("neutral", "positive"),
#'     reason = c(NA, "It enjoys the day.")
#'   )
#' )
#' tone
#' path <- tempfile(fileext = ".yaml")
#' write_codebook(tone, path)
#' identical(read_codebook(path), tone)
codebook <- function(
  question,
  labels = NULL,
  type = NULL,
  schema = NULL,
  examples = NULL,
  text_role = NULL,
  answer_role = NULL,
  language = NULL,
  words = NULL,
  system = NULL
) {
  error_call <- rlang::current_env()
  check_given(question, "What is asked of each text, such as \"Is it for or against?\".")
  question <- check_string(question)
  type <- type %||%
    if (!is.null(schema)) {
      "fields"
    } else if (is.ordered(labels)) {
      "ordinal"
    } else {
      "label"
    }
  type <- check_choice(type, c("label", "ordinal", "multiple", "fields"))
  if (is.null(labels) && type != "fields") {
    must <- "a character vector of labels, or of definitions with labels as names"
    abort_argument("labels", must, labels, error_call)
  }
  content <- list(
    question = value_json(question, "question", error_call),
    labels = labels_json(labels, error_call),
    type = value_json(type, "type", error_call),
    schema = if (!is.null(schema)) schema_text(schema, "schema", error_call),
    examples = examples_json(examples, type, error_call),
    text_role = string_json(text_role, "text_role", error_call),
    answer_role = string_json(answer_role, "answer_role", error_call),
    language = string_json(language, "language", error_call),
    words = words_json(words, error_call),
    system = string_json(system, "system", error_call)
  )
  json <- json_object(Filter(Negate(is.null), content))
  new_codebook(py_call("codebook_make", json, error_call = error_call))
}

#' @rdname codebook
#' @param path Path of a YAML file; `~` is expanded.
#' @export
read_codebook <- function(path) {
  error_call <- rlang::current_env()
  path <- expand_path(check_string(path))
  if (!file.exists(path) || dir.exists(path)) {
    abort_argument("path", "a file that is there", path, error_call)
  }
  new_codebook(py_call("codebook_read", path, error_call = error_call))
}

#' @rdname codebook
#' @param codebook A codebook.
#' @export
write_codebook <- function(codebook, path) {
  error_call <- rlang::current_env()
  check_codebook(codebook)
  path <- expand_path(check_string(path))
  py_call("codebook_write", codebook$content, path, error_call = error_call)
  invisible(codebook)
}

new_codebook <- function(described) {
  content <- jsonlite::parse_json(described[["json"]])
  labels <- as_text(described[["names"]])
  structure(
    list(
      question = content$question,
      labels = stats::setNames(as_text(described[["definitions"]]), labels),
      type = described[["type"]],
      schema = described[["schema"]],
      hash = described[["hash"]],
      content = described[["json"]],
      page = as_text(described[["page"]])
    ),
    class = "llamaherd_codebook"
  )
}

check_codebook <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  if (!inherits(x, "llamaherd_codebook")) {
    abort_argument(arg, "a <llamaherd_codebook> made by codebook()", x, error_call)
  }
  x
}

#' @export
format.llamaherd_codebook <- function(x, ...) {
  c(sub("^<Codebook>", "<llamaherd_codebook>", x$page[[1]]), x$page[-1])
}

#' @export
print.llamaherd_codebook <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

# ---- parts of a codebook as JSON -----------------------------------------------------------

string_json <- function(x, arg, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  value_json(check_string(x, arg, error_call = error_call), arg, error_call)
}

# Definitions by label; a label without a name has none.
labels_json <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  if (is.factor(x)) {
    x <- levels(x)
  }
  if (is.numeric(x) && is.null(attr(x, "class")) && all(is.finite(x))) {
    numbers <- vapply(x, format, "", digits = 15, scientific = FALSE)
    x <- stats::setNames(numbers, names(x))
  }
  if (!is.character(x)) {
    must <- "a character vector of labels, or of definitions with labels as names"
    hint <- if (is.data.frame(x)) {
      "Of a data frame: setNames(x$definition, x$label), by the names of its columns."
    } else if (is.list(x)) {
      "unlist() makes such a vector of a list."
    } else {
      "as.character() makes labels of values."
    }
    abort_argument("labels", must, x, error_call, hint)
  }
  texts <- check_text(x, "labels", error_call)
  given <- as_utf8(rlang::names2(x))
  is_named <- nzchar(given)
  names <- ifelse(is_named, given, texts)
  if (anyNA(names) || anyDuplicated(names)) {
    abort_argument("labels", "texts, no two of them the same", x, error_call)
  }
  definitions <- as.list(ifelse(is_named, texts, ""))
  json_object(lapply(
    stats::setNames(definitions, names),
    value_json,
    "labels",
    error_call
  ))
}

words_json <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is.character(x) || is.null(names(x))) {
    abort_argument("words", "a named character vector", x, error_call)
  }
  words <- as.list(check_text(x, "words", error_call))
  json_object(lapply(
    stats::setNames(words, names(x)),
    value_json,
    "words",
    error_call
  ))
}

examples_json <- function(x, type, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  fits <- is.data.frame(x) && all(c("text", "label") %in% names(x))
  extra <- setdiff(names(x), c("text", "label", "reason"))
  if (!fits || length(extra) > 0) {
    must <- "a data frame with columns `text`, `label` and perhaps `reason`"
    abort_argument("examples", must, x, error_call)
  }
  texts <- check_text(as_plain(x[["text"]]), "examples$text", error_call)
  labels <- x[["label"]]
  if (!is.list(labels)) {
    labels <- as.list(check_text(as_plain(labels), "examples$label", error_call))
  }
  reasons <- as_utf8(x[["reason"]] %||% rep(NA_character_, nrow(x)))
  one <- function(text, label, reason) {
    # R has no scalars: only the type tells a list of one label from a label.
    label <- if (type == "multiple") as.list(as_plain(label)) else label
    parts <- list(text = text, label = unname_unless(label, type == "fields"))
    if (!is.na(reason)) {
      parts$reason <- reason
    }
    value_json(parts, "examples", error_call)
  }
  json_array(Map(one, texts, labels, reasons))
}

unname_unless <- function(x, keep) if (keep) x else unname(x)
