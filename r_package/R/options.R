# Arguments of generate() and generate_parallel(), converted for Python.

# `env` is the frame of the function that the user called.
call_options <- function(env, dots, n) {
  further <- further_settings(env$sampling, dots)
  values <- c(mget(names(sampling_kinds), envir = env), further)
  kinds <- c(sampling_kinds, further_kinds)[names(values)]
  values <- Map(
    \(value, kind, name) check_sampling(value, kind, name, n),
    values,
    kinds,
    names(values)
  )
  is_each <- vapply(values, inherits, NA, "per_prompt")
  flags <- c("parse_special", "strict", "show_schema", "clean", "hash")
  py_arguments(
    c(flags, "retries", "logprobs"),
    sampling = values[!is_each],
    each = lapply(values[is_each], unclass),
    env = env
  )
}

check_sampling <- function(x, kind, arg, n) {
  switch(
    kind,
    seed = if (is.null(x)) -1L else one_or_each(x, arg, n),
    limit = ,
    whole = ,
    number = ,
    strings = one_or_each(x, arg, n),
    texts = py_values(x, arg),
    choices = check_choices(x, arg, n),
    schema = check_schema(x, arg, n),
    sources = check_sources(x, arg, n),
    bias = check_bias(x, arg),
    tokens = as_py_list(if (!is.null(x)) check_tokens(x, arg)),
    py_value(x, arg)
  )
}

# Converts a value for all prompts, or a vector with a value for each prompt.
one_or_each <- function(x, arg, n) {
  if (is.null(x) || n == 1 || length(x) != n) {
    return(py_value(x, arg))
  }
  structure(py_values(x, arg), class = "per_prompt")
}

# Requires one vector of texts for all prompts, or a list with one vector per prompt.
check_choices <- function(x, arg, n) {
  if (is.list(x) && n == 1 && length(x) == 1) {
    x <- x[[1]]
  }
  if (!is.list(x)) {
    return(py_values(label_set(x), arg))
  }
  if (length(x) != n) {
    must <- sprintf("a list with one character vector for each prompt (%d)", n)
    abort_argument(arg, must, x)
  }
  arg <- sprintf("%s[[%d]]", arg, seq_along(x))
  x <- Map(\(labels, name) py_values(label_set(labels), name), unname(x), arg)
  structure(unname(x), class = "per_prompt")
}

# Requires the texts of `quote_from`: one text for all prompts, or one text per prompt. NA means
# that quotes are copied from the prompt.
check_sources <- function(x, arg, n) {
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (is.null(x) || is.logical(x) && all(is.na(x)) && length(x) %in% c(1L, n)) {
    return(NULL)
  }
  if (!is.character(x) || !length(x) %in% c(1L, n)) {
    return(unreadable(x))
  }
  missing <- is.na(x)
  x[missing] <- ""
  texts <- as.list(unname(check_text(x, arg)))
  texts[missing] <- list(NULL)
  if (length(texts) == 1) texts[[1]] else structure(texts, class = "per_prompt")
}

check_bias <- function(x, arg) {
  tokens <- suppressWarnings(as.integer(names(x)))
  if (!is.numeric(x) || length(tokens) != length(x) || anyNA(tokens) || anyNA(x)) {
    abort_argument(arg, "a numeric vector with token ids as names", x)
  }
  unname(Map(list, tokens, as.double(x)))
}

# Returns the prompts and the options of `chat`.
chat_or_prompts <- function(x, arg, env) {
  check_given(x, arg = arg)
  chat <- check_flag(env$chat, "chat")
  system <- py_value(env$system, "system")
  options <- py_arguments(
    c("thinking", "template", "prefix", "merge_system"),
    variables = if (length(env$variables) > 0) check_variables(env$variables),
    env = env
  )
  options <- Filter(Negate(is.null), options)
  of_chat <- c(
    if (!is.null(system)) "system",
    names(options)[!vapply(options, isFALSE, NA)] # thinking needs a chat
  )
  if (!chat && length(of_chat) > 0) {
    abort("{.arg {of_chat[[1]]}} needs {.code chat = TRUE}.")
  }
  prompts <- as_prompts(x, arg, if (chat) as_conversation else as_prompt)
  warn_placeholders(x, arg)
  prompts$options <- if (chat) c(list(chat = TRUE, system = system), options)
  prompts
}

# Returns a hint for the error message if `prompts` is a value that users often pass by mistake.
prompts_hint <- function(x) {
  if (is.data.frame(x)) {
    "Take the column with the texts, such as data$text."
  } else if (is.null(x)) {
    "Is the name of a column misspelt? data$txet is NULL."
  }
}

# Returns prompts in three forms: for Python (NULL for prompts that fail in R), as text for hashes,
# and the reasons of failures. `read` is a function that converts an element of a list.
as_prompts <- function(x, arg, read = as_prompt) {
  check_given(x, arg = arg)
  if (is.factor(x) || (is.logical(x) && all(is.na(x)))) {
    x <- stats::setNames(as.character(x), names(x))
  }
  if (!(is.character(x) || is.list(x)) || is.data.frame(x)) {
    abort_argument(arg, "a character vector", x, hint = prompts_hint(x))
  }
  if (is.character(x)) {
    text <- as_utf8(x)
    missing <- is.na(x)
    values <- as.list(unname(text))
  } else {
    missing <- unname(vapply(x, is_missing, logical(1)))
    values <- Map(
      \(prompt, i, skip) {
        if (!skip) read(prompt, sprintf("%s[[%d]]", arg, i))
      },
      unname(x),
      seq_along(x),
      missing
    )
    text <- vapply(
      values,
      \(value) if (is_messages(value)) contents(value) else paste(value, collapse = " "),
      character(1)
    )
    text[vapply(
      values,
      \(value) is.null(value) || anyNA(value),
      logical(1)
    )] <- NA
  }
  problems <- rep(NA_character_, length(x))
  noun <- if (arg == "texts") "the text" else "the prompt"
  problems[is.na(text)] <- sub("^the text", noun, invalid_text)
  problems[missing] <- paste(noun, "is NA")
  values[is.na(text)] <- list(NULL)
  list(
    values = values,
    text = text,
    problems = problems,
    missing = missing,
    names = valid_names(x, arg)
  )
}

# Returns valid names. Names are only shown, so a name with invalid encoding is not an error.
valid_names <- function(x, arg) {
  names <- names(x)
  bad <- which(!is.na(names) & is.na(as_utf8(names %||% character())))
  if (length(bad) > 0) {
    Encoding(names[bad]) <- "UTF-8"
    names[bad] <- base::iconv(names[bad], "UTF-8", "UTF-8", sub = "byte")
    warn(
      c(
        "{length(bad)} name{?s} of {.arg {arg}} {?is/are} not valid text.",
        i = "The first is {.code names({arg})[{bad[[1]]}]}, changed to {.val {names[bad[[1]]]}}."
      ),
      "text"
    )
  }
  names
}

is_missing <- function(prompt) {
  is.null(prompt) || (is.atomic(prompt) && length(prompt) == 1 && is.na(prompt))
}

as_prompt <- function(prompt, arg) {
  if (is.factor(prompt)) {
    prompt <- as.character(prompt)
  }
  if (is.character(prompt) && length(prompt) == 1) {
    return(as_utf8(prompt))
  }
  if (!is.numeric(prompt)) {
    abort_argument(arg, "a string or token ids", prompt)
  }
  check_tokens(prompt, arg)
}

# Warns of prompts with a placeholder, such as {text}, that looks like glue but is not filled in:
# prompts are not templates. JSON, LaTeX and code also contain braces, so a placeholder is reported
# only if all prompts contain it and the user has a variable of this name.

warn_placeholders <- function(prompts, arg) {
  if (!is.character(prompts) || inherits(prompts, "glue") || length(prompts) == 0) {
    return(invisible())
  }
  placeholders <- placeholders_of(unique(prompts[!is.na(prompts)]))
  if (length(placeholders) == 0) {
    return(invisible())
  }
  env <- user_frame(public_frame())
  is_known <- vapply(
    placeholders,
    \(name) {
      variable <- variable_of(name, env)
      is.atomic(variable) && !is.null(variable)
    },
    NA
  )
  if (any(is_known)) {
    placeholder <- encodeString(
      names(placeholders)[is_known][[1]],
      quote = "\""
    )
    warn(
      c(
        "{.arg {arg}} contains {placeholder}, which stays as it is: prompts are not templates.",
        i = "{.code paste0(\"Is this positive? \", texts)} or {.code glue::glue()} fills in values."
      ),
      "placeholder"
    )
  }
}

# Warns of a question of a codebook that contains a placeholder of one of these names.
warn_placeholders_of <- function(question, names) {
  placeholders <- placeholders_of(question)
  at <- placeholders %in% names
  if (any(at)) {
    placeholder <- encodeString(names(placeholders)[at][[1]], quote = "\"")
    warn(
      c(
        "The question of the codebook contains {placeholder}, which stays as it is.",
        i = "Each text is added after the question: {.fn prompt_preview} shows the prompt."
      ),
      "placeholder"
    )
  }
}

# Returns the names in braces that all texts contain; their names are the whole placeholders.
placeholders_of <- function(texts) {
  if (length(texts) == 0 || anyNA(as_utf8(texts[[1]]))) {
    return(character())
  }
  if (!grepl("{", texts[[1]], fixed = TRUE, useBytes = TRUE)) {
    return(character())
  }
  # No placeholders: \textbf{word}, ${name}, f(x){y}, {"json": 1}.
  pattern <- "(?<![\\w\\\\$}{)])(\\{\\{\\s*[A-Za-z][\\w.]*\\s*\\}\\}|\\{[A-Za-z][\\w.]*\\})(?!\\})"
  first <- as_utf8(texts[[1]])
  placeholders <- unique(regmatches(first, gregexpr(pattern, first, perl = TRUE))[[1]])
  placeholders <- Filter(
    \(placeholder) all(grepl(placeholder, texts, fixed = TRUE, useBytes = TRUE)),
    placeholders
  )
  stats::setNames(gsub("[{}[:space:]]", "", placeholders), placeholders)
}

# Returns the environment in which the user called this package, whose function `frame` belongs to.
# This can be a data mask, such as in dplyr::mutate(): it has no frame number, and sys.parents()
# then gives the number of the called function itself. The loop is bounded, because code that is
# evaluated in a frame can make the frame its own caller.
user_frame <- function(frame) {
  for (i in seq_len(sys.nframe())) {
    if (!identical(topenv(frame), topenv())) {
      return(frame)
    }
    frame <- do.call(parent.frame, list(), envir = frame)
  }
  globalenv()
}
