# Conversion of arguments. Python judges values; R only converts types, names, NA and encodings. A
# value that has no counterpart in Python is sent as an object that prints as describe() shows it,
# so that the error of Python's check names it.

# Converts a single value for Python. A vector of all choices, the default of an argument, means the
# first of them.
py_value <- function(x, arg = rlang::caller_arg(x)) {
  check_given(x, arg = arg)
  if (is.character(x) && length(x) > 1 && identical(x, default_of(arg))) {
    x <- x[[1]]
  }
  if (is.null(x)) {
    return(NULL)
  }
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (!is_simple(x) || length(x) != 1 || is.na(x)) {
    return(unreadable(x))
  }
  if (is.character(x)) {
    check_text(x, arg)
  } else if (is.numeric(x)) {
    py_number(x)
  } else {
    as.vector(x)
  }
}

# Converts a vector to a list for Python.
py_values <- function(x, arg = rlang::caller_arg(x)) {
  check_given(x, arg = arg)
  if (is.null(x)) {
    return(NULL)
  }
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (!is_simple(x)) {
    return(list(unreadable(x)))
  }
  args <- if (length(x) == 1) arg else sprintf("%s[%d]", arg, seq_along(x))
  unname(Map(py_value, as.list(unname(x)), args))
}

# Conversions of arguments that mean the same in all functions, by name; those of all other
# arguments are single values.
readers <- list(
  codebook = \(x, arg) as_python(check_class(x, "llamaherd_codebook", arg)),
  context = \(x, arg) if (!is.null(x)) check_context(x, arg),
  coded = \(x, arg) if (!is.null(x)) labels_given(x, arg),
  gold = \(x, arg) gold_given(x),
  path = \(x, arg) py_path(x, arg),
  journal = \(x, arg) py_path(x, arg),
  coders = \(x, arg) py_values(x, arg),
  parts = \(x, arg) py_values(x, arg),
  thinking = \(x, arg) check_thinking(x)
)

# Converts arguments of the function whose frame is `env`, by name. Named arguments in `...` are
# converted already.
py_arguments <- function(..., env = rlang::caller_env()) {
  arguments <- rlang::list2(...)
  is_name <- !nzchar(rlang::names2(arguments))
  names <- as.character(unlist(arguments[is_name]))
  values <- lapply(names, \(name) {
    is_missing <- eval(call("missing", as.name(name)), env)
    if (is_missing && rlang::is_missing(formals(function_of(env))[[name]])) {
      check_given(arg = name)
    }
    read <- readers[[name]] %||% py_value
    read(get(name, env), name)
  })
  c(rlang::set_names(values, names), arguments[!is_name])
}

# Converts a path, which may begin with "~".
py_path <- function(x, arg = rlang::caller_arg(x)) {
  value <- py_value(x, arg)
  if (is.character(value)) expand_path(value) else value
}

# Numbers without decimals become integers: reticulate turns 1 into a float and 1L into an int.
py_number <- function(x) {
  is_whole <- is.finite(x) && x == trunc(x) && abs(x) <= .Machine$integer.max
  if (is_whole) as.integer(x) else as.double(x)
}

# TRUE for logical values, numbers and texts without a class.
is_simple <- function(x) {
  is.null(attr(x, "class")) && (is.logical(x) || is.numeric(x) || is.character(x))
}

unreadable <- function(x) py_call("unreadable", describe(x))

function_of <- function(env) {
  at <- which(vapply(as.list(sys.frames()), identical, NA, env))
  if (length(at) > 0) sys.function(at[[1]])
}

# Returns the default of an argument of the function that the user called.
default_of <- function(arg) {
  formals <- as.list(formals(function_of(public_frame())))
  if (is.call(formals[[arg]])) eval(formals[[arg]], baseenv())
}

abort_argument <- function(arg, must, x, error_call = public_frame(), hint = NULL) {
  abort(
    c(
      "{.arg {arg}} must be {must}, not {describe(x)}.",
      i = if (!is.null(hint)) "{hint}"
    ),
    "argument",
    error_call,
    argument = arg
  )
}

# Describes a value in a message: short values are shown, others are described by their type.
describe <- function(x) {
  if (is.null(x)) {
    return("NULL")
  }
  if (any(startsWith(class(x), "llamaherd_"))) {
    return(sprintf("a <%s>", class(x)[[1]])) # do not show internal classes
  }
  if (rlang::is_formula(x)) {
    return(shorten(deparse1(x), 60L))
  }
  if (!is.atomic(x) || !is.null(attr(x, "class"))) {
    return(sprintf("a <%s> of length %d", class(x)[[1]], length(x)))
  }
  if (is.character(x)) {
    x <- shorten(x, 60L)
  }
  if (length(x) == 1 && is.na(x)) {
    "NA"
  } else if (length(x) <= 4) {
    deparse1(as.vector(x))
  } else {
    article <- if (is.integer(x)) "an" else "a"
    sprintf("%s %s vector of length %d", article, typeof(x), length(x))
  }
}

shorten <- function(x, width) {
  x <- readable(x)
  long <- !is.na(x) & nchar(x) > width
  x[long] <- paste0(substr(x[long], 1L, width - 3L), "...")
  x
}

# Requires an argument without a default; `hint` describes the value. A check of a value calls it
# first, so that the error names the function that the user called, and not the check.
check_given <- function(x, hint = NULL, arg = rlang::caller_arg(x), ...) {
  if (missing(x)) {
    abort(c("{.arg {arg}} is missing.", i = if (!is.null(hint)) "{hint}"))
  }
}

check_flag <- function(x, arg = rlang::caller_arg(x)) {
  check_given(x, arg = arg)
  if (!is.logical(x) || length(x) != 1 || is.na(x)) {
    abort_argument(arg, "TRUE or FALSE", x)
  }
  as.logical(x)
}

check_string <- function(x, arg = rlang::caller_arg(x), null = FALSE) {
  check_given(x, arg = arg)
  if (null && is.null(x)) {
    return(NULL)
  }
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (!is.character(x) || length(x) != 1 || is.na(x)) {
    abort_argument(arg, if (null) "a string or NULL" else "a string", x)
  }
  check_text(x, arg)
}

# Returns text in UTF-8, without names. Factors become text. NA and invalid bytes cause errors.
check_text <- function(x, arg = rlang::caller_arg(x)) {
  check_given(x, arg = arg)
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (!is.character(x)) {
    abort_argument(
      arg,
      "a character vector",
      x,
      hint = if (is.data.frame(x)) prompts_hint(x)
    )
  }
  text <- as_utf8(x)
  if (anyNA(text)) {
    i <- which(is.na(text))[[1]]
    hint <- if (!is.na(x[[i]])) invalid_text_hint
    if (length(x) > 1) {
      arg <- sprintf("%s[%d]", arg, i)
    }
    abort_argument(arg, "valid text", x[[i]], hint = hint)
  }
  text
}

# Returns a set of labels as text, with its names: the levels of a factor, logical values as "TRUE"
# and "FALSE", finite numbers in their shortest form. All other values are returned as they are, for
# an error of the caller.
label_set <- function(x) if (is.factor(x)) levels(x) else label_values(x)

# Returns labels of texts, as label_set() does: a factor becomes the text of its values.
label_values <- function(x) {
  if (is.factor(x)) {
    return(as.character(x))
  }
  is_plain <- is.atomic(x) && !is.object(x) && is.null(dim(x)) && !anyNA(x)
  if (is_plain && is.logical(x)) {
    stats::setNames(as.character(x), names(x))
  } else if (is_plain && is.numeric(x) && all(is.finite(x))) {
    stats::setNames(number_texts(x), names(x))
  } else {
    x
  }
}

number_texts <- function(x) {
  vapply(x, format, "", digits = 15, scientific = FALSE, decimal.mark = ".")
}

# Returns values as text. as.character() of a number depends on options(OutDec = ) before R 4.3.
value_text <- function(x) {
  if (is.double(x) && !is.object(x) && getOption("OutDec") != ".") {
    old <- options(OutDec = ".")
    on.exit(options(old))
  }
  as.character(x)
}

# Converts text to UTF-8, with NA for invalid bytes. Bytes that are valid UTF-8 are read as UTF-8 in
# any locale; other bytes are read in the encoding of the locale. In the C locale enc2utf8() would
# write "<e9>" for bytes that it cannot read.
as_utf8 <- function(x) {
  text <- value_text(x)
  unmarked <- Encoding(text) == "unknown" & validUTF8(text)
  Encoding(text[unmarked]) <- "UTF-8"
  native <- !is.na(text) & !unmarked & Encoding(text) == "unknown"
  text[native] <- base::iconv(text[native], "", "UTF-8")
  convert <- !is.na(text) & Encoding(text) == "latin1"
  text[convert] <- enc2utf8(text[convert])
  text[!validUTF8(text) | Encoding(text) == "bytes"] <- NA_character_
  text
}

# Returns texts that can be printed and measured: in UTF-8, with a note in place of texts whose
# bytes are not valid in their encoding.
readable <- function(x) {
  text <- as_utf8(x)
  text[is.na(text) & !is.na(x)] <- "(not valid text)"
  text
}

# Problem of a text whose bytes are not valid in its encoding.
invalid_text <- "the text is not valid text in its encoding; see ?iconv"

invalid_text_hint <- paste(
  "If it is Latin-1, iconv(x, \"latin1\", \"UTF-8\") converts it; read.csv() reads such files",
  "with fileEncoding = \"latin1\"."
)

# Returns a path for R's functions. In a locale without letters other than ASCII, R would convert a
# path that is declared as UTF-8 to the locale, although the names of files are bytes.
native_path <- function(x) {
  if (is_ascii_locale()) {
    Encoding(x) <- "unknown"
  }
  x
}

# Whether the locale has only ASCII letters, as the C locale of cron, clusters and containers.
is_ascii_locale <- function() {
  of_locale <- unlist(l10n_info()[c("MBCS", "UTF-8", "Latin-1")])
  !any(of_locale) && .Platform$OS.type == "unix"
}

file_exists <- function(path) file.exists(native_path(path))

dir_exists <- function(path) dir.exists(native_path(path))

# Returns the path of a file that exists.
existing_file <- function(x, arg, must = "an existing file", hint = NULL) {
  path <- expand_path(check_string(x, arg))
  if (!file_exists(path) || dir_exists(path)) {
    abort_argument(arg, must, path, hint = hint)
  }
  path
}

base_name <- function(path) as_utf8(basename(native_path(path)))

dir_name <- function(path) as_utf8(dirname(native_path(path)))

full_path <- function(path) {
  path <- as_utf8(normalizePath(native_path(path), winslash = "/", mustWork = FALSE))
  # normalizePath() returns a relative path of a missing file unchanged.
  is_relative <- !grepl("^(/|[A-Za-z]:|~)", path)
  ifelse(is_relative, file.path(as_utf8(getwd()), path), path)
}

# Returns a path from Python with slashes, as R writes it: a backslash begins an escape in R code.
# Windows accepts no slashes in a path that begins with `\\?\`.
r_path <- function(path, os = .Platform$OS.type) {
  if (os != "windows" || is.null(path)) {
    return(path)
  }
  as_it_is <- startsWith(path, "\\\\?\\")
  path[!as_it_is] <- gsub("\\", "/", path[!as_it_is], fixed = TRUE)
  path
}

# Functions that make objects, by class, for errors.
makers <- c(
  llamaherd_calibration = "calibrate_batch() or calibrate_contextual()",
  llamaherd_choice = "best_codebook()",
  llamaherd_codebook = "codebook()",
  llamaherd_codebooks = "compare_codebooks()",
  llamaherd_coded = "annotate_texts()",
  llamaherd_estimates = "estimate()",
  llamaherd_evaluation = "evaluate_codebook()",
  llamaherd_gold = "gold_sample() or read_gold()",
  llamaherd_pairs = "compare_pairs()",
  llamaherd_robustness = "robustness()",
  llamaherd_validation = "validate()"
)

# Requires an object of a class of this package, and returns it.
check_class <- function(x, class, arg = rlang::caller_arg(x), null = FALSE, or = "") {
  check_given(x, arg = arg)
  if (!(null && is.null(x)) && !inherits(x, class)) {
    abort_argument(arg, sprintf("a <%s> made by %s%s", class, makers[[class]], or), x)
  }
  x
}

# Requires a whole number, for arguments that R itself uses.
check_whole <- function(x, arg = rlang::caller_arg(x)) {
  check_given(x, arg = arg)
  if (!is_simple(x) || !is.numeric(x) || length(x) != 1 || !isTRUE(x == trunc(x))) {
    abort_argument(arg, "a whole number", x)
  }
  if (abs(x) <= .Machine$integer.max) as.integer(x) else x
}

check_choice <- function(x, choices, arg = rlang::caller_arg(x)) {
  if (identical(x, choices)) {
    return(choices[[1]])
  }
  if (!is.character(x) || length(x) != 1 || !x %in% choices) {
    must <- paste(encodeString(choices, quote = "\""), collapse = " or ")
    abort_argument(arg, must, x)
  }
  x
}

# Requires that all arguments in `...` are named, are among `known`, and occur only once. With
# quosures as `dots`, a misspelt argument is named although its value, a bare column, is no object.
check_dots <- function(dots, known = character()) {
  names <- rlang::names2(dots)
  bad <- names[!names %in% known | duplicated(names)]
  if (length(bad) == 0) {
    return(invisible())
  }
  bad <- bad[[1]]
  frame <- public_frame()
  formals <- setdiff(names(formals(function_of(frame))), "...")
  meant <- if (nzchar(bad) && !bad %in% known) {
    closest(bad, c(known, formals)) %||%
      if (bad %in% c("level", "conf.level")) {
        intersect(c("level", "conf.level"), formals)
      }
  }
  is_sampling <- all(names(further_kinds) %in% known)
  accepted <- union(
    formals,
    setdiff(known, if (is_sampling) names(further_kinds))
  )
  abort(
    c(
      paste0(
        "`...` cannot take ",
        if (nzchar(bad)) "{.arg {bad}}" else "an argument without a name",
        if (bad %in% known) " twice",
        "."
      ),
      i = if (length(meant) > 0) "Did you mean {.arg {meant}}?",
      i = if (length(accepted) > 0) "Accepted arguments: {.arg {accepted}}.",
      i = if (is_sampling) "{.code ?sampling_options} has further arguments."
    ),
    "argument",
    frame
  )
}

# Returns the element of `names` that is most similar to `name`; NULL if no element is similar.
closest <- function(name, names) {
  distance <- utils::adist(name, names, ignore.case = TRUE)[1, ]
  letters_of <- \(x) sort(strsplit(tolower(x), "")[[1]])
  swapped <- vapply(names, \(other) identical(letters_of(other), letters_of(name)), NA)
  distance[swapped] <- pmin(distance[swapped], 1)
  if (nzchar(name) && any(distance <= max(1, nchar(name) %/% 3))) {
    names[[which.min(distance)]]
  }
}
