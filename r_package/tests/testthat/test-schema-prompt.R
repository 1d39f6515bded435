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
