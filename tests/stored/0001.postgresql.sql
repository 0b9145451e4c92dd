--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: vector; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;


--
-- Name: EXTENSION vector; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON EXTENSION vector IS 'vector data type and ivfflat and hnsw access methods';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: checkpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.checkpoints (
    log_id uuid NOT NULL,
    seq bigint NOT NULL,
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    checkpoint_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    parent_id character varying(255) COLLATE pg_catalog."C",
    ordinal bigint NOT NULL,
    rests_on character varying(255) COLLATE pg_catalog."C",
    run_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    raw_size integer NOT NULL,
    stored_size integer NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    signature bytea,
    CONSTRAINT ck_checkpoints_position CHECK (((seq > 0) AND (ordinal >= 0))),
    CONSTRAINT ck_checkpoints_sizes CHECK (((raw_size >= 0) AND (stored_size >= 0)))
);


--
-- Name: deltas; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deltas (
    log_id uuid NOT NULL,
    seq bigint NOT NULL,
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    kind character varying(16) NOT NULL,
    entry_key character varying(128) COLLATE pg_catalog."C",
    label character varying(255) COLLATE pg_catalog."C",
    base_seq bigint,
    depth integer NOT NULL,
    radix smallint,
    overwrites smallint,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    search_text text,
    occurred_at timestamp with time zone,
    stored_at timestamp with time zone,
    signature bytea,
    payload bytea NOT NULL,
    CONSTRAINT ck_deltas_kind CHECK (((((kind)::text = 'snapshot'::text) AND (base_seq IS NULL)) OR (((kind)::text = 'delta'::text) AND (base_seq IS NOT NULL) AND (base_seq < seq)) OR (((kind)::text = 'entry'::text) AND (occurred_at IS NOT NULL) AND (stored_at IS NOT NULL)) OR (((kind)::text = 'write'::text) AND (label IS NOT NULL) AND (stored_at IS NOT NULL)))),
    CONSTRAINT ck_deltas_numbers CHECK (((seq > 0) AND (depth >= 0)))
);
ALTER TABLE ONLY public.deltas ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: embeddings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.embeddings (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    field character varying(128) NOT NULL COLLATE pg_catalog."C",
    model character varying(128) NOT NULL COLLATE pg_catalog."C",
    part integer NOT NULL,
    dimensions integer NOT NULL,
    change bigint NOT NULL,
    signature bytea,
    vector public.vector NOT NULL,
    CONSTRAINT ck_embeddings_numbers CHECK (((part >= 0) AND (dimensions > 0) AND (change >= 0)))
);
ALTER TABLE ONLY public.embeddings ALTER COLUMN vector SET STORAGE MAIN;


--
-- Name: memalchemy_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.memalchemy_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: store_items; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_items (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    version bigint NOT NULL,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    search_text text,
    field_terms text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    lifetime bigint,
    signature bytea,
    value bytea NOT NULL,
    CONSTRAINT ck_store_items_version CHECK ((version > 0))
);
ALTER TABLE ONLY public.store_items ALTER COLUMN value SET STORAGE EXTERNAL;


--
-- Name: threads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.threads (
    log_id uuid NOT NULL,
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    next_seq bigint NOT NULL,
    version bigint NOT NULL,
    last_ordinal bigint NOT NULL,
    epoch bigint NOT NULL,
    head_id character varying(255) COLLATE pg_catalog."C",
    previous_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    forked_from character varying(510) COLLATE pg_catalog."C",
    forked_seq bigint,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    active_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    deleted_at timestamp with time zone,
    signature bytea,
    CONSTRAINT ck_threads_counters CHECK (((next_seq > 0) AND (version > 0) AND (last_ordinal >= 0)))
)
WITH (fillfactor='70');


--
-- Data for Name: checkpoints; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 1, 'stored', '1k0zqkt8tdecvyjnw0', NULL, 1, NULL, NULL, '{"step": 0, "colour": "blue"}', 62, 70, '2026-11-24 04:11:29.568272+00', '2026-11-24 04:11:29.568272+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 2, 'stored', '1k0zqkt9nkdbae1h8s', '1k0zqkt8tdecvyjnw0', 2, NULL, NULL, '{"step": 1, "colour": "blue"}', 115, 38, '2026-11-24 04:11:29.596097+00', '2026-11-24 04:11:29.596097+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 3, 'stored', '1k0zqkta22w0pwrjm7', '1k0zqkt9nkdbae1h8s', 3, NULL, NULL, '{"step": 2, "colour": "blue"}', 163, 26, '2026-11-24 04:11:29.608872+00', '2026-11-24 04:11:29.608872+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 4, 'stored', '1k0zqkta49g2zyk01j', '1k0zqkta22w0pwrjm7', 4, NULL, NULL, '{"step": 3, "colour": "blue"}', 216, 27, '2026-11-24 04:11:29.611118+00', '2026-11-24 04:11:29.611118+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 5, 'stored', '1k0zqkta6d8g0a4qgq', '1k0zqkta49g2zyk01j', 5, NULL, NULL, '{"step": 4, "colour": "blue"}', 264, 54, '2026-11-24 04:11:29.613286+00', '2026-11-24 04:11:29.613286+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 6, 'stored', '1k0zqkta8qtyty5jpg', '1k0zqkta6d8g0a4qgq', 6, NULL, NULL, '{"step": 5, "colour": "blue"}', 317, 27, '2026-11-24 04:11:29.615668+00', '2026-11-24 04:11:29.615668+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 7, 'stored', '1k0zqktaarh62admb5', '1k0zqkta8qtyty5jpg', 7, NULL, NULL, '{"step": 6, "colour": "blue"}', 365, 28, '2026-11-24 04:11:29.617735+00', '2026-11-24 04:11:29.617735+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 8, 'stored', '1k0zqktaf7c6rk780a', '1k0zqktaarh62admb5', 8, NULL, NULL, '{"step": 7, "colour": "red"}', 418, 28, '2026-11-24 04:11:29.622341+00', '2026-11-24 04:11:29.622341+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 9, 'stored', '1k0zqktagj40j1nqyx', '1k0zqktaf7c6rk780a', 9, NULL, NULL, '{"step": 8, "colour": "blue"}', 466, 39, '2026-11-24 04:11:29.623671+00', '2026-11-24 04:11:29.623671+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 10, 'stored', '1k0zqktahp5z2gnr5a', '1k0zqktagj40j1nqyx', 10, NULL, NULL, '{"step": 9, "colour": "blue"}', 519, 28, '2026-11-24 04:11:29.624813+00', '2026-11-24 04:11:29.624813+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 11, 'stored', '1k0zqktajphpqs45sy', '1k0zqktahp5z2gnr5a', 11, NULL, NULL, '{"step": 10, "colour": "blue"}', 568, 125, '2026-11-24 04:11:29.625844+00', '2026-11-24 04:11:29.625844+00', NULL);
INSERT INTO public.checkpoints VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 12, 'stored', '1k0zqktakz6veha9s3', '1k0zqktajphpqs45sy', 12, NULL, NULL, '{"step": 11, "colour": "blue"}', 622, 30, '2026-11-24 04:11:29.627145+00', '2026-11-24 04:11:29.627145+00', NULL);
INSERT INTO public.checkpoints VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 1, 'stored', '1k0zqktamwgvtzn8t4', NULL, 1, NULL, NULL, '{}', 10, 16, '2026-11-24 04:11:29.62807+00', '2026-11-24 04:11:29.62807+00', NULL);
INSERT INTO public.checkpoints VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 2, 'stored', '1k0zqktapjkgxd6mvj', '1k0zqktamwgvtzn8t4', 2, NULL, NULL, '{}', 15, 19, '2026-11-24 04:11:29.629809+00', '2026-11-24 04:11:29.629809+00', NULL);
INSERT INTO public.checkpoints VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 3, 'stored', '1k0zqktay2513qmgyz', '1k0zqktamwgvtzn8t4', 3, NULL, NULL, '{}', 16, 20, '2026-11-24 04:11:29.637483+00', '2026-11-24 04:11:29.637483+00', NULL);
INSERT INTO public.checkpoints VALUES ('d0e27149-e8db-8dcd-ac8a-a8ffd9d1cb5c', 1, 'stored', 'first: 1', NULL, 1, NULL, NULL, '{}', 22, 28, '2026-11-24 04:11:29.64391+00', '2026-11-24 04:11:29.64391+00', NULL);
INSERT INTO public.checkpoints VALUES ('9eb40f83-292d-8fb5-9a5f-774ce8a55bc0', 1, 'stored', '1k0zqktamwgvtzn8t4', NULL, 1, NULL, NULL, '{}', 10, 16, '2026-11-24 04:11:29.62807+00', '2026-11-24 04:11:29.62807+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 1, 'stored', 'nested 0', NULL, 1, NULL, 'run', '{}', 62, 70, '2026-11-24 04:11:29.677819+00', '2026-11-24 04:11:29.677819+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 2, 'stored', 'nested 1', 'nested 0', 2, 'nested 0', 'run', '{}', 115, 38, '2026-11-24 04:11:29.680476+00', '2026-11-24 04:11:29.680476+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 3, 'stored', 'nested 2', 'nested 1', 3, 'nested 1', 'run', '{}', 163, 26, '2026-11-24 04:11:29.682852+00', '2026-11-24 04:11:29.682852+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 4, 'stored', 'nested 3', 'nested 2', 4, 'nested 2', 'run', '{}', 216, 27, '2026-11-24 04:11:29.685432+00', '2026-11-24 04:11:29.685432+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 5, 'stored', 'nested 4', 'nested 3', 5, 'nested 3', 'run', '{}', 264, 27, '2026-11-24 04:11:29.687074+00', '2026-11-24 04:11:29.687074+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 6, 'stored', 'nested 5', 'nested 4', 6, 'nested 4', 'run', '{}', 317, 104, '2026-11-24 04:11:29.689104+00', '2026-11-24 04:11:29.689104+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 7, 'stored', 'nested 6', 'nested 5', 7, 'nested 5', 'run', '{}', 365, 28, '2026-11-24 04:11:29.698713+00', '2026-11-24 04:11:29.698713+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 8, 'stored', 'nested 7', 'nested 6', 8, 'nested 6', 'run', '{}', 418, 28, '2026-11-24 04:11:29.700045+00', '2026-11-24 04:11:29.700045+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 9, 'stored', 'nested 8', 'nested 7', 9, 'nested 7', 'run', '{}', 466, 28, '2026-11-24 04:11:29.70094+00', '2026-11-24 04:11:29.70094+00', NULL);
INSERT INTO public.checkpoints VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 10, 'stored', 'nested 9', 'nested 8', 10, 'nested 8', 'run', '{}', 519, 28, '2026-11-24 04:11:29.701809+00', '2026-11-24 04:11:29.701809+00', NULL);


--
-- Data for Name: deltas; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 1, 'stored', 'snapshot', NULL, NULL, NULL, 0, NULL, NULL, 'splice', 7267961187496291794, 'user Message 0 about lighthouses', NULL, NULL, NULL, '\x029b72842337b5b838313db5f888e1c4a62545f939a94b4a8b538b9627e7e795a4e695ecf185482b18282426e5979628e464a6679464e403d514eb1d61292e492d38c2c80000');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 2, 'stored', 'delta', NULL, NULL, 1, 1, NULL, NULL, 'splice', -9167956294789214905, 'assistant Message 1 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101300035010001c416029b04d1b132b1b838b3b82431af04439b21166d8c00');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 3, 'stored', 'delta', NULL, NULL, 2, 2, NULL, NULL, 'splice', -8966354796035562080, 'user Message 2 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101650030010001c40a029b8ccf1a232c3a9800');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 4, 'stored', 'delta', NULL, NULL, 3, 3, NULL, NULL, 'splice', -691248532019684353, 'assistant Message 3 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cc950035010001c40a029b42d01a632cda9801');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 5, 'stored', 'delta', NULL, NULL, 1, 4, NULL, NULL, 'splice', 5216271784594946270, 'user Message 4 about lighthouses', NULL, NULL, NULL, '\x93c09b00020001013000ccca010001c425029b0ad1b132b1b838b3b82431af04439b21166df8ac31c2a91e8f25c6245a6282453d0b00');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 6, 'stored', 'delta', NULL, NULL, 5, 5, NULL, NULL, 'splice', 5342197835793290997, 'assistant Message 5 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101ccfa0035010001c40a029b46d01a532cda5801');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 7, 'stored', 'delta', NULL, NULL, 6, 6, NULL, NULL, 'splice', 6714113502055072336, 'user Message 6 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd012f0030010001c40a029b8ecf1a332c3ad800');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 8, 'stored', 'delta', NULL, NULL, 7, 7, NULL, NULL, 'splice', -5648492905144071475, 'assistant Message 7 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd015f0035010001c40a029b41d01a732cdad801');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 9, 'stored', 'delta', NULL, NULL, 5, 8, NULL, NULL, 'splice', 664032452510991734, 'user Message 8 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101ccfa00ccca010001c415029b49d01a5312ad3123c72fe6245a6281453d0700');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 10, 'stored', 'delta', NULL, NULL, 9, 9, NULL, NULL, 'splice', 7283297105767566699, 'assistant Message 9 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd01c40035010001c40a029b45d01a4b2cda3801');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 11, 'stored', 'snapshot', NULL, NULL, NULL, 0, NULL, NULL, 'splice', -66230863809536001, 'user Message 10 about lighthouses', NULL, NULL, NULL, '\x029b72842337b5b838313db5f82893f6eca62545f939a94b4a8b538b9627e7e795a4e695ecf185c82b18282426e5979628e464a6679464e403d514eb41d4af4c2c2ece2c2e49cc2bc1d064885313764b8cc8b1c498444b4cc8b1c494444bccc8b1c49c444b2cc8b1c492384bf6c2e3105bcc1f61292e492d38c2c80500');
INSERT INTO public.deltas VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 12, 'stored', 'delta', NULL, NULL, 11, 1, NULL, NULL, 'splice', 5977621721763489714, 'assistant Message 11 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd022a0036010001c40c029b83cb1e843e6c91cf0d00');
INSERT INTO public.deltas VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 1, 'stored', 'snapshot', NULL, NULL, NULL, 0, NULL, NULL, 'splice', -421480228957781764, 'root', NULL, NULL, NULL, '\x0092c40470617468c40691a4726f6f74');
INSERT INTO public.deltas VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 2, 'stored', 'delta', NULL, NULL, 1, 1, NULL, NULL, 'splice', 8907346343023842837, 'left', NULL, NULL, NULL, '\x93c09300000bc40b029b042697e4a4a6950000');
INSERT INTO public.deltas VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 3, 'stored', 'delta', NULL, NULL, 1, 1, NULL, NULL, 'splice', -580885502123154093, 'right', NULL, NULL, NULL, '\x93c09300000cc40c029b0426971665a667940000');
INSERT INTO public.deltas VALUES ('d0e27149-e8db-8dcd-ac8a-a8ffd9d1cb5c', 1, 'stored', 'snapshot', NULL, NULL, NULL, 0, NULL, NULL, 'splice', 9062136680480347424, 'Unicode 漢 字', NULL, NULL, NULL, '\x0092c40474657874c412b1c39c6ec3af636f64652c20e6bca2e5ad97');
INSERT INTO public.deltas VALUES ('9eb40f83-292d-8fb5-9a5f-774ce8a55bc0', 1, 'stored', 'snapshot', NULL, NULL, NULL, 0, NULL, NULL, 'splice', -421480228957781764, 'root', NULL, NULL, NULL, '\x0092c40470617468c40691a4726f6f74');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 1, 'stored', 'snapshot', NULL, NULL, NULL, 0, 8, NULL, 'splice', 7267961187496291794, 'user Message 0 about lighthouses', NULL, NULL, NULL, '\x029b72842337b5b838313db5f888e1c4a62545f939a94b4a8b538b9627e7e795a4e695ecf185482b18282426e5979628e464a6679464e403d514eb1d61292e492d38c2c80000');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 2, 'stored', 'delta', NULL, NULL, 1, 1, 8, NULL, 'splice', -9167956294789214905, 'assistant Message 1 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101300035010001c416029b04d1b132b1b838b3b82431af04439b21166d8c00');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 3, 'stored', 'delta', NULL, NULL, 2, 2, 8, NULL, 'splice', -8966354796035562080, 'user Message 2 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101650030010001c40a029b8ccf1a232c3a9800');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 4, 'stored', 'delta', NULL, NULL, 3, 3, 8, NULL, 'splice', -691248532019684353, 'assistant Message 3 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cc950035010001c40a029b42d01a632cda9801');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 5, 'stored', 'delta', NULL, NULL, 4, 4, 8, NULL, 'splice', 5216271786687392235, 'user Message 4 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101ccca0030010001c40a029b8acf1a132c3a5800');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 6, 'stored', 'snapshot', NULL, NULL, NULL, 0, 8, NULL, 'splice', 5342197835293852393, 'assistant Message 5 about lighthouses', NULL, NULL, NULL, '\x029b72842337b5b838313db5f828a3c1b4a62545f939a94b4a8b538b9627e7e795a4e695ecf185c82b18282426e5979628e464a6679464e403d514eb41d4af4c2c2ece2c2e49cc2bc1d064885313764b8cc8b1c498444b4cc8b1c4148ba6232cc525a90547185901');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 7, 'stored', 'delta', NULL, NULL, 6, 1, 8, NULL, 'splice', 6714113502055072336, 'user Message 6 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd012f0030010001c40a029b8ecf1a332c3ad800');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 8, 'stored', 'delta', NULL, NULL, 7, 2, 8, NULL, 'splice', -5648492905144071475, 'assistant Message 7 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd015f0035010001c40a029b41d01a732cdad801');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 9, 'stored', 'delta', NULL, NULL, 8, 3, 8, NULL, 'splice', 664032454773242405, 'user Message 8 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd01940030010001c40a029b89cf1a0b2c3a3800');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 10, 'stored', 'delta', NULL, NULL, 9, 4, 8, NULL, 'splice', 7283297105767566699, 'assistant Message 9 about lighthouses', NULL, NULL, NULL, '\x93c09b0002000101cd01c40035010001c40a029b45d01a4b2cda3801');
INSERT INTO public.deltas VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 11, 'stored', 'write', 'w/nested 9/c0117b339b09534e', 'nested 9', NULL, 0, NULL, NULL, 'zwrite1', 270403302, NULL, NULL, '2026-11-24 04:11:29.703905+00', NULL, '\x029bbca424b1387bc1a4c90ccb819a81cda89cc625c589c0a80317ab93199782b3d424462600');
INSERT INTO public.deltas VALUES ('e732df5d-f0a5-8418-aacc-240ef21823f9', 1, 'stored', 'entry', 'first', NULL, NULL, 0, NULL, NULL, 'zvalue1', 4106393332, 'user A zebra', '2026-11-24 04:11:29.712178+00', '2026-11-24 04:11:29.712178+00', NULL, '\x0082a4726f6c65a475736572a7636f6e74656e74a841207a656272613f');
INSERT INTO public.deltas VALUES ('e732df5d-f0a5-8418-aacc-240ef21823f9', 2, 'stored', 'entry', NULL, NULL, NULL, 0, NULL, NULL, 'zvalue1', 3481682797, 'plain text', '2026-11-24 04:11:29.712178+00', '2026-11-24 04:11:29.712178+00', NULL, '\x00aa706c61696e2074657874');
INSERT INTO public.deltas VALUES ('e732df5d-f0a5-8418-aacc-240ef21823f9', 3, 'stored', 'entry', 'third', NULL, NULL, 0, NULL, NULL, 'zvalue1', 1240710485, 'a list', '2026-11-24 04:11:29.712178+00', '2026-11-24 04:11:29.712178+00', NULL, '\x0092a161a46c697374');


--
-- Data for Name: embeddings; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.embeddings VALUES ('stored', '/users/naïve~1~0/', 'ada', 'e', 'default', 0, 2, 0, NULL, '[1,0.5]');
INSERT INTO public.embeddings VALUES ('stored', '/users/naïve~1~0/', 'e', 'e', 'default', 0, 2, 0, NULL, '[-0.25,3]');


--
-- Data for Name: memalchemy_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memalchemy_version VALUES ('0001');


--
-- Data for Name: store_items; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_items VALUES ('~', '/~memalchemy/', 'schema', '{"revision": "0001", "oldest_release": "0.1.0"}', 1, 'none', 0, NULL, NULL, '2026-11-24 04:11:29.371299+00', '2026-11-24 04:11:29.371299+00', NULL, NULL, NULL, '\x2d');
INSERT INTO public.store_items VALUES ('stored', '/users/naïve~1~0/', 'ada', '{"n": 1}', 1, 'zvalue1', 2979335638, 'giraffes', 'fb37516d5t67697261666665730000 f6636ffadnc042000000000000 f532402c9nbff0000000000000', '2026-11-24 04:11:29.730979+00', '2026-11-24 04:11:29.730979+00', NULL, NULL, NULL, '\x0082a56c696b6573a86769726166666573a361676524');
INSERT INTO public.store_items VALUES ('stored', '/users/naïve~1~0/', 'e', '{}', 1, 'zvalue1', 1477128067, 'no key', NULL, '2026-11-24 04:11:29.763022+00', '2026-11-24 04:11:29.763022+00', NULL, NULL, NULL, '\x0092a26e6fa36b6579');
INSERT INTO public.store_items VALUES ('stored', '/users/naïve~1~0/', 'ключ/🔑', '{"nested": {"a": [1, null]}}', 1, 'zvalue1', 3333531826, 'no vector', NULL, '2026-11-24 04:11:29.764756+00', '2026-11-24 04:11:29.764756+00', NULL, NULL, NULL, '\x00a96e6f20766563746f72');


--
-- Data for Name: threads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.threads VALUES ('f0daf66b-0bb2-867f-a927-e0ddc584cf03', 'stored', 'long', '/', 13, 12, 12, 601383535812017432, '1k0zqktakz6veha9s3', '1k0zqktajphpqs45sy', '{}', NULL, NULL, '2026-11-24 04:11:29.568272+00', '2026-11-24 04:11:29.627145+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);
INSERT INTO public.threads VALUES ('2e5b1615-e880-8b3d-91ed-bbdc5c33aa79', 'stored', 'branched', '/', 4, 3, 3, 982486915374939268, '1k0zqktay2513qmgyz', '1k0zqktapjkgxd6mvj', '{}', NULL, NULL, '2026-11-24 04:11:29.62807+00', '2026-11-24 04:11:29.637483+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);
INSERT INTO public.threads VALUES ('d0e27149-e8db-8dcd-ac8a-a8ffd9d1cb5c', 'stored', 'naïve/ключ/🔑', '/', 2, 1, 1, 1283501027559728169, 'first: 1', NULL, '{}', NULL, NULL, '2026-11-24 04:11:29.64391+00', '2026-11-24 04:11:29.64391+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);
INSERT INTO public.threads VALUES ('18392701-2940-8292-a58f-ae9c25e24687', 'stored', 'deleted', '/', 2, 2, 0, 3128120428572035238, NULL, NULL, '{}', NULL, NULL, '2026-11-24 04:11:29.645414+00', '2026-11-24 04:11:29.645414+00', '2026-11-24 04:11:29+00', NULL, '2026-11-24 04:11:29.646713+00', NULL);
INSERT INTO public.threads VALUES ('9eb40f83-292d-8fb5-9a5f-774ce8a55bc0', 'stored', 'forked', '/', 2, 1, 1, 697072973789507097, '1k0zqktamwgvtzn8t4', NULL, '{}', 'branched', 1, '2026-11-24 04:11:29.657343+00', '2026-11-24 04:11:29.657343+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);
INSERT INTO public.threads VALUES ('7d8a6b7a-e1f9-8493-a8be-5abbb9ae5127', 'stored', 'long', '/graph/sub/', 12, 10, 10, 2643165719621831721, 'nested 9', 'nested 8', '{}', NULL, NULL, '2026-11-24 04:11:29.677819+00', '2026-11-24 04:11:29.703905+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);
INSERT INTO public.threads VALUES ('e732df5d-f0a5-8418-aacc-240ef21823f9', 'stored', 'long', '/log/', 4, 1, 0, 4349575864796410183, NULL, NULL, '{}', NULL, NULL, '2026-11-24 04:11:29.712178+00', '2026-11-24 04:11:29.712178+00', '2026-11-24 04:11:29+00', NULL, NULL, NULL);


--
-- Name: memalchemy_version memalchemy_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.memalchemy_version
    ADD CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num);


--
-- Name: checkpoints pk_checkpoints; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT pk_checkpoints PRIMARY KEY (log_id, seq);


--
-- Name: deltas pk_deltas; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT pk_deltas PRIMARY KEY (log_id, seq);


--
-- Name: embeddings pk_embeddings; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part);


--
-- Name: store_items pk_store_items; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_items
    ADD CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key);


--
-- Name: threads pk_threads; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.threads
    ADD CONSTRAINT pk_threads PRIMARY KEY (log_id);


--
-- Name: checkpoints uq_checkpoints_log_id_checkpoint_id; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT uq_checkpoints_log_id_checkpoint_id UNIQUE (log_id, checkpoint_id);


--
-- Name: ix_checkpoints_meta; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_meta ON public.checkpoints USING gin (meta jsonb_path_ops) WHERE (meta <> '{}'::jsonb);


--
-- Name: ix_checkpoints_rests_on; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_rests_on ON public.checkpoints USING btree (log_id, rests_on) WHERE (rests_on IS NOT NULL);


--
-- Name: ix_checkpoints_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_run_id ON public.checkpoints USING btree (tenant, run_id) WHERE (run_id IS NOT NULL);


--
-- Name: ix_deltas_base_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_base_seq ON public.deltas USING btree (log_id, base_seq) WHERE (base_seq IS NOT NULL);


--
-- Name: ix_deltas_search_text; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_search_text ON public.deltas USING gin (to_tsvector('simple'::regconfig, search_text)) WHERE (search_text IS NOT NULL);


--
-- Name: ix_embeddings_tenant_namespace_model_dimensions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON public.embeddings USING btree (tenant, namespace, model, dimensions);


--
-- Name: ix_store_items_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_expires_at ON public.store_items USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: ix_store_items_search; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_search ON public.store_items USING gin ((((to_tsvector('simple'::regconfig, CASE WHEN (search_text IS NULL) THEN ''::text ELSE search_text END) || to_tsvector('simple'::regconfig, CASE WHEN (field_terms IS NULL) THEN ''::text ELSE field_terms END)) || array_to_tsvector(ARRAY[(((chr(31) || (tenant)::text) || chr(31)) || (namespace)::text)])))) WITH (gin_pending_list_limit='384');


--
-- Name: ix_store_items_tenant_namespace_updated_at_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON public.store_items USING btree (tenant, namespace, updated_at, key);


--
-- Name: ix_threads_tenant_active_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_tenant_active_at ON public.threads USING btree (tenant, active_at);


--
-- Name: ix_threads_tenant_namespace_active_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_tenant_namespace_active_at ON public.threads USING btree (tenant, namespace, active_at);


--
-- Name: ix_threads_tenant_thread_id_namespace; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_tenant_thread_id_namespace ON public.threads USING btree (tenant, thread_id, namespace);


--
-- Name: uq_deltas_entry_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX uq_deltas_entry_key ON public.deltas USING btree (log_id, entry_key) WHERE (entry_key IS NOT NULL);


--
-- Name: checkpoints fk_checkpoints_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT fk_checkpoints_threads FOREIGN KEY (log_id) REFERENCES public.threads(log_id) ON DELETE CASCADE;


--
-- Name: deltas fk_deltas_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT fk_deltas_threads FOREIGN KEY (log_id) REFERENCES public.threads(log_id) ON DELETE CASCADE;


--
-- Name: embeddings fk_embeddings_store_items; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT fk_embeddings_store_items FOREIGN KEY (tenant, namespace, key) REFERENCES public.store_items(tenant, namespace, key) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


