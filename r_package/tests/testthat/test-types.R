# Objects with the structure of ellmer's, which have S7 classes: properties are attributes, and S7
# stores NULL as a symbol.
ellmer_type <- function(class, ..., description = NULL, required = TRUE) {
  as_ellmer(
    paste0("ellmer::", c(class, "Type")),
    list(
      ...,
      description = description %||% as.symbol("\001NULL\001"),
      required = required
    )
  )
}

as_ellmer <- function(class, properties) {
  object <- structure(list(), class = c(class, "S7_object"))
  for (name in names(properties)) {
    attr(object, name) <- properties[[name]]
  }
  object
}

schema_of <- function(x) check_schema(x, "schema", 1L)

# Checks that each schema becomes the JSON that is its name.
expect_json <- function(...) {
  schemas <- list(...)
  expect_identical(unname(lapply(schemas, schema_of)), as.list(names(schemas)))
}

test_that("types become JSON Schema", {
  enum <- type_enum(factor("b", levels = c("b", "a")))
  quoted <- type_quote("Why?", unit = "characters", least = 5, most = 9)
  named <- type_object(
    "D",
    a = type_string(),
    !!"gr\u00f6\u00dfe" := type_number(required = FALSE)
  )
  properties <- '"a":{"type":"string"},"gr\u00f6\u00dfe":{"type":"number"}'
  expect_json(
    '{"type":"boolean"}' = type_boolean(),
    '{"type":"integer","description":"How \\"many\\""}' = type_integer("How \"many\""),
    '{"type":"number"}' = type_number(),
    '{"type":"string","enum":["a","b"]}' = type_enum(c("a", "b")),
    '{"type":"string","enum":["b","a"]}' = enum,
    '{"type":"string","quote":{"unit":"words"}}' = type_quote(),
    '{"type":"string","enum":["a"]}' = type_enum("a"),
    '{"type":"array","items":{"type":"string"}}' = type_array(type_string()),
    '{"type": "string"}' = type_from_schema('{"type": "string"}'),
    '{"type":"array","items":{"minimum":1}}' = type_array(type_from_schema(
      '{"minimum":1}'
    ))
  )
  rest <- '"required":["a"],"additionalProperties":false,"description":"D"}'
  expect_identical(
    schema_of(named),
    paste0('{"type":"object","properties":{', properties, "},", rest)
  )
  expect_identical(
    schema_of(quoted),
    paste0(
      '{"type":"string","quote":{"unit":"characters","least":5,"most":9},',
      '"description":"Why?"}'
    )
  )
  expect_identical(
    schema_of(type_object(.additional_properties = TRUE)),
    '{"type":"object","properties":{},"required":[],"additionalProperties":true}'
  )
})

test_that("types print their fields", {
  expect_page({
    type_string("A name.")
    type_enum(c("a", "b {c}"), required = FALSE)
    type_array(type_array(type_integer()))
    type_object(
      "A review.",
      stars = type_integer("From 1 to 5.", required = FALSE),
      people = type_array(type_object(name = type_string(), kind = type_enum("a"))),
      other = type_from_schema("true")
    )
  })
})

test_that("objects as ellmer's are taken", {
  basic <- \(type, ...) ellmer_type("TypeBasic", type = type, ...)
  object <- ellmer_type(
    "TypeObject",
    properties = list(
      a = basic("string", description = "An {a}."),
      b = ellmer_type("TypeEnum", values = c("x", "y"), required = FALSE),
      c = ellmer_type("TypeArray", items = basic("integer")),
      d = ellmer_type("TypeIgnore"),
      e = ellmer_type(
        "TypeJsonSchema",
        json = list(type = "string", enum = list("u", "v"))
      )
    ),
    additional_properties = FALSE,
    description = "D"
  )
  ours <- type_object(
    "D",
    a = type_string("An {a}."),
    b = type_enum(c("x", "y"), required = FALSE),
    c = type_array(type_integer()),
    e = type_from_schema('{"type":"string","enum":["u","v"]}')
  )
  expect_identical(schema_of(object), schema_of(ours))
  expect_identical(
    schema_of(type_array(object)),
    schema_of(type_array(ours))
  )
  expect_refused(schema_of(ellmer_type("TypeOther")))
})

test_that("types of ellmer itself are taken", {
  skip_if_not_installed("ellmer")
  # The package is neither in Debian nor in Suggests, because only this test uses it.
  of <- \(name, ...) getExportedValue("ellmer", name)(...)
  numbers <- of("type_array", items = of("type_integer"))
  letters <- of("type_enum", values = c("x", "y"), required = FALSE)
  theirs <- of("type_object", "D", a = of("type_string", "A"), b = letters, c = numbers)
  numbers <- type_array(type_integer())
  letters <- type_enum(c("x", "y"), required = FALSE)
  ours <- type_object("D", a = type_string("A"), b = letters, c = numbers)
  expect_identical(schema_of(theirs), schema_of(ours))
})

test_that("schemas may be lists", {
  properties <- list(
    a = list(type = "string"),
    required = list(const = 1),
    b = type_number()
  )
  object <- list(type = "object", properties = properties, required = "a")
  expect_identical(
    schema_of(c(object, additionalProperties = FALSE)),
    paste0(
      '{"type":"object","properties":{"a":{"type":"string"},"required":{"const":1},',
      '"b":{"type":"number"}},"required":["a"],"additionalProperties":false}'
    )
  )
  tuple <- list(list(type = "string"), TRUE)
  any <- list(list(type = "null"), type_string())
  number <- list(type = "number", minimum = 0.1, maximum = 1e10)
  expect_json(
    '{"enum":["a","b"]}' = list(enum = factor(c("a", "b"))),
    '{"enum":["a"]}' = list(enum = "a"),
    '{"enum":[1,"a",null]}' = list(enum = list(1, "a", NULL)),
    '{"type":["string","null"]}' = list(type = c("string", "null")),
    '{"items":{}}' = list(items = list()),
    '{"items":[{"type":"string"},true]}' = list(items = tuple),
    '{"anyOf":[{"type":"null"},{"type":"string"}]}' = list(anyOf = any),
    '{"type":"number","minimum":0.1,"maximum":10000000000}' = number,
    '{"const":null}' = list(const = NULL),
    '{"const":{"a":1,"b":[2,"x"]}}' = list(const = list(a = 1, b = list(2, "x"))),
    '{"type":"string","pattern":"\\\\d"}' = c(type = "string", pattern = "\\d"),
    '{"$ref":"#/$defs/a","$defs":{"a":true}}' = list(
      `$ref` = "#/$defs/a",
      `$defs` = list(a = TRUE)
    )
  )
})

test_that("schemas may be texts and files", {
  path <- withr::local_tempfile(lines = '\ufeff{"type": "string"}')
  expect_identical(trimws(schema_of(path)), '{"type": "string"}')
  expect_identical(schema_of('{"a":"\u00e4"}'), '{"a":"\u00e4"}')
  expect_identical(schema_of(structure("true", class = "json")), "true")
  expect_identical(type_from_schema(path = path)$kind, "schema")
  expect_identical(
    check_schema(list(path, type_string()), "schema", 2L)[[2]],
    '{"type":"string"}'
  )
  expect_s3_class(check_schema(c("true", "false"), "schema", 2L), "per_prompt")
})

test_that("the functions have ellmer's arguments", {
  single <- as.pairlist(alist(description = NULL, required = TRUE))
  for (make in list(type_boolean, type_integer, type_number, type_string)) {
    expect_identical(formals(make), single)
  }
  with_first <- \(name) {
    as.pairlist(c(rlang::set_names(as.list(formals(\(x) NULL)), name), single))
  }
  expect_identical(formals(type_enum), with_first("values"))
  expect_identical(formals(type_array), with_first("items"))
  object <- alist(.description = NULL, ... = , .required = TRUE)
  object <- c(object, .additional_properties = FALSE)
  expect_identical(formals(type_object), as.pairlist(object))
})

test_that("a list of schemas may have none for some prompts", {
  local_fake()
  texts <- check_schema(list(type_string(), NULL), "schema", 2L)
  expect_identical(unclass(texts), list('{"type":"string"}', NULL))
  expect_null(check_schema(list(NULL, NULL), "schema", 2L))
  expect_error(schema_prompt(list(type_string(), NULL)), "schema")
  result <- answers_table(
    structure(c("1", "2"), finish_reason = c("stop", "stop")),
    schema_columns('{"type":"integer"}'),
    FALSE,
    c(TRUE, FALSE)
  )
  expect_identical(result$value, c(1L, NA))
  expect_identical(attr(result, "text"), c("1", "2"))
})

test_that("lengths of quotes are checked", {
  expect_error(type_quote(least = 5, most = 4), "at most `most`", fixed = TRUE)
  expect_error(type_quote(unit = "lines"), class = "llamaherd_error_argument")
  expect_equal(
    format(type_array(type_quote("Why?", least = 4))),
    "<llamaherd_type> array of quote of at least 4 words"
  )
  expect_equal(format(type_quote()), "<llamaherd_type> quote")
})

test_that("texts to quote from are one, or one for each prompt", {
  expect_equal(check_sources("a", "quote_from", 2), "a")
  expect_null(check_sources(NULL, "quote_from", 2))
  expect_null(check_sources(NA, "quote_from", 2))
  expect_equal(
    unclass(check_sources(c("a", NA), "quote_from", 2)),
    list("a", NULL)
  )
})

test_that("passages become a long table", {
  span <- function(label, quote, start, end) {
    data.frame(label = label, quote = quote, start = start, end = end)
  }
  coded <- data.frame(id = c("a", "b", "c"), text = c("x y", NA, "z"))
  coded$spans <- list(
    span(c("p", "q"), c("x", "y"), c(1L, 3L), c(1L, 3L)),
    NULL,
    span("q", "z", 1L, 1L)
  )
  long <- coded_spans(coded, id)
  expect_identical(long$id, c("a", "a", "c"))
  expect_identical(as.character(long$label), c("p", "q", "q"))
  expect_identical(substr(c("x y", "x y", "z"), long$start, long$end), long$quote)
  expect_identical(coded_spans(coded)$row, c(1L, 1L, 3L))
  none <- coded_spans(coded[2, ])
  expect_identical(dim(none), c(0L, 5L))
  expect_identical(none$start, integer())
  expect_error(coded_spans(coded["id"]), class = "llamaherd_error_argument")
  expect_error(coded_spans(coded, nope), class = "llamaherd_error_argument")
  expect_error(coded_spans(coded, c(id, text)), class = "llamaherd_error_argument")
})

test_that("a schema is described for the prompt", {
  local_fake()
  schema <- type_object(a = type_string("An A."))
  expect_match(schema_prompt(schema), "\"a\": text (An A.)", fixed = TRUE)
  expect_length(schema_prompt(list(schema, "true")), 2)
  expect_identical(schema_prompt(list(schema)), schema_prompt(schema))
  expect_refused({
    schema_prompt(NULL)
    schema_prompt(5)
    schema_prompt("{")
  })
})
