#' Create, write and read a codebook
#'
#' @description
#' A codebook describes in words what to label in each text. A codebook contains the labels and
#' their definitions, and coded examples. [annotate_texts()] labels a column of texts by the
#' codebook; [prompt_preview()] shows the prompt.
#'
#' `write_codebook()` writes a codebook to a YAML file that people can edit and compare.
#' `read_codebook()` reads such a file. All values in the file are text: a label `no` is not FALSE.
#'
#' @param question The question or instruction for the model, without a placeholder for the text:
#'   each text is added after the question.
#' @param labels Character vector of labels, or definitions named by labels: `c(negative =
#'   "Complains or attacks.", neutral = "")`. For a factor, its levels are the labels; an ordered
#'   factor sets `type` to `"ordinal"`. TRUE and FALSE become the labels `"TRUE"` and `"FALSE"`,
#'   numbers such as 0 and 1 become `"0"` and `"1"`; all functions of this package with labels
#'   follow this rule. The column of labels is then a factor, and `as.logical()` converts it.
#'   [number_scale()] describes a scale of numbers and sets `type` to `"scale"`.
#' @param type `"label"`: exactly one label per text. `"ordinal"`: one label of an ordered scale,
#'   from the lowest to the highest. `"scale"`: one number of a [number_scale()]. `"multiple"`: any
#'   number of labels. `"fields"`: data that follow `schema`; the default with a schema. `"spans"`:
#'   passages of the text, each with a label, see [coded_spans()].
#' @param schema For `"fields"`: a schema, see [generate_parallel()] and [type_object()].
#' @param examples Coded examples: a data frame with the columns `text`, `label` and optionally
#'   `reason`, which may be NA. With several labels per text, `label` is a list column of character
#'   vectors. With fields, it is a list column of named lists. With spans, it is a list column of
#'   data frames with the columns `quote` (words of the text) and `label`.
#' @param text_role,answer_role Words that introduce a text and an answer in the prompt. NULL uses
#'   `"Text"` and `"Label"`, in the language of the prompt.
#' @param language Language of the prompt's fixed words and of the texts. The prompt mentions the
#'   language. One of `"en"`, `"de"`, `"fr"` and `"es"`, or the name of any other language; for
#'   another language, `words` must contain all fixed words. NULL uses English words and does not
#'   mention a language.
#' @param words Replacements for fixed words of the prompt, such as "Labels:": a named character
#'   vector with names among `text`, `answer`, `reason`, `labels`, `one`, `ordinal`, `several`,
#'   `fields`, `yes`, `no`, `told`, `number`, `numbers`, `scale`, `quote`.
#' @param system Text of a system message; without `chat` it begins the prompt.
#' @param max_spans For `"spans"`: maximum number of passages per text. NULL uses 10.
#' @param quote For `"spans"`: length of a passage, made by [type_quote()]. NULL allows 1 to 60
#'   words.
#' @param ... Must be empty. A misspelt argument causes an error whose message names the most
#'   similar argument.
#' @returns `codebook()` and `read_codebook()`: a `llamaherd_codebook`, which prints as a page: a
#'   list with these elements:
#'
#'   * `question` and `type`: as in the arguments.
#'   * `labels`: definitions, named by labels.
#'   * `hash`: SHA-256 of the content.
#'   * `measured`: scale of measurement, `"nominal"`, `"ordinal"` or `"interval"`.
#'   * `is_numeric`: TRUE if the labels are ordered numbers, so that coded columns are numeric.
#'   * `content`: the whole codebook as JSON.
#'
#'   `write_codebook()`: its argument `codebook`, invisibly.
#' @seealso [annotate_texts()], [prompt_preview()], [robustness()]
#' @concept several labels
#' @concept ordinal scale
#' @concept few-shot examples
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
  system = NULL,
  max_spans = NULL,
  quote = NULL,
  ...
) {
  check_dots(rlang::enquos(...))
  check_given(
    question,
    "The question about each text, such as \"Is it for or against?\"."
  )
  question <- check_string(question)
  warn_placeholders_of(question, "text")
  type <- type %||%
    if (!is.null(schema)) {
      "fields"
    } else if (inherits(labels, "llamaherd_scale")) {
      "scale"
    } else if (is.ordered(labels)) {
      "ordinal"
    } else {
      "label"
    }
  kinds <- c("label", "ordinal", "scale", "multiple", "fields", "spans")
  type <- check_choice(type, kinds)
  is_scale <- inherits(labels, "llamaherd_scale")
  if (is_scale != (type == "scale") || is.null(labels) && type != "fields") {
    must <- if (type == "scale") {
      "a scale, such as number_scale(0, 10)"
    } else {
      "a character vector of labels, or of definitions with labels as names"
    }
    abort_argument("labels", must, labels)
  }
  if (!is.null(examples) && !is.list(examples)) {
    abort_argument("examples", "a data frame, or a list of examples", examples)
  }
  content <- list(
    question = question,
    labels = if (!is_scale && !is.null(labels)) definitions_by_label(labels),
    scale = if (is_scale) structure(labels$content, class = "json"),
    type = type,
    schema = if (!is.null(schema)) {
      structure(schema_text(schema, "schema"), class = "json")
    },
    examples = na_as_null(
      if (is.data.frame(examples)) example_rows(examples, type) else examples
    ),
    text_role = text_role,
    answer_role = answer_role,
    language = language,
    words = words,
    system = system,
    max_spans = max_spans,
    quote = if (!is.null(quote)) check_quote_type(quote)
  )
  content <- Filter(Negate(is.null), content)
  py_call("codebook_make", value_json(content, ""))
}

#' @rdname codebook
#' @param path Path of a YAML file; `~` is expanded.
#' @export
read_codebook <- function(path) {
  py_call("read_codebook", existing_file(path, "path"))
}

#' @rdname codebook
#' @param codebook A codebook.
#' @param overwrite TRUE replaces an existing file, which people may have edited.
#' @export
write_codebook <- function(codebook, path, overwrite = FALSE) {
  check_class(codebook, "llamaherd_codebook")
  path <- py_path(path)
  overwrite <- py_value(overwrite)
  py_call("write_codebook", as_python(codebook), path, overwrite = overwrite)
  invisible(codebook)
}

# Replaces NA in plain lists, which Python then names as missing.
na_as_null <- function(x) {
  if (is.list(x) && !is.object(x)) {
    lapply(x, na_as_null)
  } else if (!(is.atomic(x) && length(x) == 1 && is.na(x))) {
    x
  }
}

check_quote_type <- function(x) {
  if (!inherits(x, "llamaherd_type") || x$kind != "quote") {
    abort_argument("quote", "a type from type_quote()", x)
  }
  x$rule
}

# ---- parts of a codebook ----------------------------------------------------------------

# Returns definitions by label; a label without a name has no definition.
definitions_by_label <- function(x) {
  x <- label_set(x)
  if (is.list(x)) {
    must <- "a character vector of labels, or of definitions with labels as names"
    hint <- "unlist() makes one of a list, setNames(x$definition, x$label) of a data frame."
    abort_argument("labels", must, x, hint = hint)
  }
  if (!is.character(x) || is.null(names(x))) {
    return(
      if (is.atomic(x) && anyNA(x)) check_text(as.character(x), "labels") else as.list(x)
    )
  }
  texts <- check_text(x, "labels")
  names <- as_utf8(names(x))
  is_named <- nzchar(names)
  names <- ifelse(is_named, names, texts)
  if (anyNA(names) || anyDuplicated(names)) {
    abort_argument("labels", "different texts", x)
  }
  as.list(rlang::set_names(ifelse(is_named, texts, ""), names))
}

# Returns a list for each example. R has no scalars, so only the codebook's `type` shows whether one
# label is a single label or a list of length 1.
example_rows <- function(x, type) {
  label_of <- function(label) {
    if (type == "multiple") {
      as.list(as_plain(label_values(label)))
    } else if (type == "spans" && is.data.frame(label)) {
      rows_as_lists(label)
    } else if (type == "fields") {
      label
    } else {
      unname(label)
    }
  }
  if (!is.list(x[["label"]])) {
    x[["label"]] <- label_values(x[["label"]])
  }
  lapply(rows_as_lists(x), \(row) {
    row$label <- label_of(row$label)
    if (is.atomic(row$reason) && anyNA(row$reason)) {
      row$reason <- NULL
    }
    row
  })
}

rows_as_lists <- function(x) {
  columns <- lapply(as.list(x), as_plain)
  lapply(seq_len(nrow(x)), \(i) lapply(columns, `[[`, i))
}

# Ready codebooks, which this project wrote on the basis of published definitions.

#' Ready codebooks, to start from
#'
#' `ready_codebook()` returns a codebook for a common task. This project wrote the words of the
#' codebook; the definitions follow published works. `list_ready_codebooks()` lists these codebooks,
#' the works that they follow, and the accuracy that was measured with them.
#'
#' A codebook that follows a definition is not the instrument of the cited work: it is shorter, and
#' was not validated like that instrument. Adapt the codebook to your texts, add examples, and
#' compare the labels with human codes by [validate()]. [methods_text()] cites the works if you used
#' a ready codebook.
#'
#' @param name Name of the codebook, see `list_ready_codebooks()`.
#' @param target For `"stance"`: object of the position, such as `"nuclear energy"`.
#' @returns `ready_codebook()`: a codebook, as [codebook()] makes it. `list_ready_codebooks()`: a
#'   data frame with one row per codebook: `name`, `about`, `type`, `n_labels`, `needs_target`,
#'   `sources` and `measured`, which is `"not measured"` where this project has no labelled texts.
#' @seealso [codebook()], [write_codebook()]
#' @export
#' @examplesIf llamaherd_available()
#' list_ready_codebooks()[c("name", "sources")]
#' ready_codebook("sentiment")
#' stance <- ready_codebook("stance", target = "nuclear energy")
#' path <- tempfile(fileext = ".yaml")
#' write_codebook(stance, path)
ready_codebook <- function(name, target = NULL) {
  py_call("ready_codebook", py_value(name), py_value(target))
}

#' @rdname ready_codebook
#' @export
list_ready_codebooks <- function() py_call("list_ready_codebooks")

#' A scale of numbers, for codebooks
#'
#' Describes a scale such as 0 to 10 for [codebook()]. Each number is scored like a label, so that
#' [annotate_texts()] returns the expected value of each text, its standard deviation, the most
#' probable number, and with `distribution = TRUE` the probability of each number.
#'
#' @param low,high Lowest and highest number. `low` and `high` may be negative or have decimals.
#' @param step Difference between two adjacent numbers. The range from `low` to `high` must be a
#'   whole number of steps, and a scale has at most 1,001 numbers.
#' @param names Names of numbers, which the prompt lists: a character vector named by numbers, such
#'   as `c("0" = "not at all", "10" = "extremely")`, or two names, of the lowest and the highest
#'   number.
#' @returns A `llamaherd_scale`: a list with `low`, `high`, `step`, `names` (named by numbers),
#'   `values` (all numbers) and `content`, the scale as JSON.
#' @seealso [codebook()], [annotate_texts()], [validate()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' anger <- number_scale(0, 10, names = c("not angry at all", "extremely angry"))
#' anger
#' codebook("How angry is the author of the text?", anger)
#'
#' # From disagreement to agreement, with a named middle.
#' number_scale(-1, 1, 0.5, names = c("-1" = "disagrees", "0" = "neutral", "1" = "agrees"))
number_scale <- function(low, high, step = 1, names = NULL) {
  check_given(low, "The lowest number, such as 0.")
  check_given(high, "The highest number, such as 10.")
  numbers <- py_arguments("low", "high", "step")
  names <- scale_names(names)
  py_call("number_scale", numbers$low, numbers$high, numbers$step, names)
}

scale_names <- function(x) {
  if (!is.character(x) || is.null(names(x))) {
    return(py_values(x, "names"))
  }
  as.list(rlang::set_names(check_text(x, "names"), names(x)))
}

#' Show the prompt for a text
#'
#' Shows the prompt in the form that the model reads, the number of its tokens, and the part that
#' all texts share, which is computed once.
#'
#' @param codebook A codebook from [codebook()].
#' @param text A text.
#' @param model A model or context for counting tokens. With NULL, tokens are not counted.
#' @param chat TRUE formats the prompt with the model's chat template; needs `model`.
#' @returns A `llamaherd_preview`, which prints the prompt: a list with these elements:
#'
#'   * `prompt`: the prompt. With several labels per text there is one prompt per label, and
#'     `prompt` is the first of these prompts.
#'   * `shared`: the beginning of the prompt that all texts share.
#'   * `n_prompts`: number of prompts per text.
#'   * `tokens`, `n_shared`: numbers of tokens of the prompt and of its shared beginning; NULL
#'     without a model.
#' @seealso [codebook()], [annotate_texts()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' prompt_preview(codebook("Good or bad?", c("good", "bad")), "It rains.")
prompt_preview <- function(codebook, text, model = NULL, chat = FALSE) {
  check_class(codebook, "llamaherd_codebook")
  text <- py_value(text)
  chat <- check_flag(chat)
  if (is.null(model) && chat) {
    abort("{.code chat = TRUE} needs {.arg model}, whose chat template is used.")
  }
  object <- if (!is.null(model)) check_model_or_context(model)
  py_call("prompt_preview", as_python(codebook), text, object, chat = chat)
}

# A prompt is shown as the model gets it, without wrapping.
#' @export
print.llamaherd_preview <- function(x, ...) {
  show_lines(format(x))
  invisible(x)
}
